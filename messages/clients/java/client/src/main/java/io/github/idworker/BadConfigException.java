package io.github.idworker;

/** An option is out of its bounds. */
public class BadConfigException extends BadArgumentException {
    private static final long serialVersionUID = 1L;

    BadConfigException(String message) {
        super(message);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
