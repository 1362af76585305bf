package io.github.idworker;

/** Code 503: the worker has no IDs at the moment. A reason of {@link CallTimeoutException}. */
public class UnavailableException extends ErrorReplyException {
    private static final long serialVersionUID = 1L;

    UnavailableException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
