package io.github.idworker;

/** Code 429: the workers have too many requests. A reason of {@link CallTimeoutException}. */
public class BusyException extends ErrorReplyException {
    private static final long serialVersionUID = 1L;

    BusyException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
