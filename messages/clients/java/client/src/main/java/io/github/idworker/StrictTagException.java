package io.github.idworker;

/** Code 409: the tag is strict, and cannot be buffered. */
public class StrictTagException extends ErrorReplyException {
    private static final long serialVersionUID = 1L;

    StrictTagException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
