package io.github.idworker;

/** The count is below 1. */
public class BadCountException extends BadArgumentException {
    private static final long serialVersionUID = 1L;

    BadCountException(String message) {
        super(message);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
