package io.github.idworker;

/** No ID came in time. {@link #reason} says why. */
public class CallTimeoutException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    CallTimeoutException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
