package io.github.idworker;

/** The thread was interrupted while it waited. */
public class CancelledException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    CancelledException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
