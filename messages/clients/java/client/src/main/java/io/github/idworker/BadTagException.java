package io.github.idworker;

/** The tag is none: it has 1 … 128 bytes of {@code A-Z a-z 0-9 _ -}, in tokens joined by dots. */
public class BadTagException extends BadArgumentException {
    private static final long serialVersionUID = 1L;

    BadTagException(String message) {
        super(message);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
