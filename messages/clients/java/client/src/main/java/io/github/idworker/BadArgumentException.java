package io.github.idworker;

/** The caller's mistake; nothing was sent. */
public abstract class BadArgumentException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    BadArgumentException(String message) {
        super(message);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
