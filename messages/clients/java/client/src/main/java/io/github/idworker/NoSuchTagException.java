package io.github.idworker;

/** Code 404: the tag does not exist. */
public class NoSuchTagException extends ErrorReplyException {
    private static final long serialVersionUID = 1L;

    NoSuchTagException(String message) {
        super(message);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
