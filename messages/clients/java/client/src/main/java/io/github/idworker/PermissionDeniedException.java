package io.github.idworker;

/** The NATS user may not publish to the subject, or not subscribe to the inbox. */
public class PermissionDeniedException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    PermissionDeniedException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
