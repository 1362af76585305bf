package io.github.idworker;

/** Code 404: the tag does not exist. */
public class NoSuchTagException extends ErrorReplyException {
    private static final long serialVersionUID = 1L;

    NoSuchTagException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
