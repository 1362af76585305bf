package io.github.idworker;

import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * Why a call got no ID. Its subclasses are the kinds of errors. The message
 * names the subject of the request, and the reason.
 */
public abstract class IdworkerException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    IdworkerException(String message) {
        super(message);
    }

    /** Whether the same call may succeed later. */
    public abstract boolean isRetryable();
}
