package io.github.idworker;

/** Code 400: the request is malformed, or asks for more than the worker's limit. */
public class MalformedRequestException extends ErrorReplyException {
    private static final long serialVersionUID = 1L;

    MalformedRequestException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isRetryable() {
        return false;
    }
}
