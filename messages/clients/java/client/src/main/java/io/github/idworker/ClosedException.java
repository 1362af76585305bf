package io.github.idworker;

/** The client or the sequence is closed. */
public class ClosedException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    ClosedException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
