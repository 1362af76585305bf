package io.github.idworker;

/** The prefix is none. */
public class BadPrefixException extends BadArgumentException {
    private static final long serialVersionUID = 1L;

    BadPrefixException(String message) {
        super(message);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
