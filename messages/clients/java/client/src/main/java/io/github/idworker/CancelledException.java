package io.github.idworker;

/** The thread was interrupted. */
public class CancelledException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    CancelledException(String message) {
        super(message);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
