package io.github.idworker;

/** A reply breaks the contract of docs/protocol.md. None of its IDs is used. */
public class BadReplyException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    BadReplyException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
