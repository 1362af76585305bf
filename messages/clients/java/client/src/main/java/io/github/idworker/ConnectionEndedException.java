package io.github.idworker;

/** The connection is closed, or draining. */
public class ConnectionEndedException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    ConnectionEndedException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
