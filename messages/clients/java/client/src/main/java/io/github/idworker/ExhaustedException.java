package io.github.idworker;

/** Code 507: the tag's numbers are used up. */
public class ExhaustedException extends ErrorReplyException {
    private static final long serialVersionUID = 1L;

    ExhaustedException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
