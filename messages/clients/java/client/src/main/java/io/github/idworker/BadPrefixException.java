package io.github.idworker;

/** The prefix is none: it is a token of {@code a-z 0-9 _ -}, 1 … 32 bytes. */
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
