package io.github.idworker;

/** A worker's refusal with a code that has no class of its own. */
public class ErrorReplyException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    ErrorReplyException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
