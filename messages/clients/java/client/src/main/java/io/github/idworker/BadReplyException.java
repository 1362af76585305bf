package io.github.idworker;

/** A reply is none of docs/protocol.md. Its IDs are not used. */
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
