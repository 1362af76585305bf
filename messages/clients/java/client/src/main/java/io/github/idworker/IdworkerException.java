package io.github.idworker;

import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * Why a call got no ID. Its subclasses are the kinds of errors. The message
 * names the subject of the request, and the reason.
 */
public abstract class IdworkerException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The code of an exception without one: codes are 0 … 999. */
    private static final int NO_CODE = -1;

    /** The code of the error reply, or {@link #NO_CODE}. */
    private final int code;
    /** The subject of the requests. */
    private final @Nullable String subject;
    /** The requests sent. */
    private final long tries;
    /** Why the call was still waiting. */
    private final @Nullable Reason reason;

    IdworkerException(String message) {
        this(message, null);
    }

    IdworkerException(String message, @Nullable Throwable cause) {
        super(message, cause);
        code = NO_CODE;
        subject = null;
        tries = 0;
        reason = null;
    }

    IdworkerException(Failure failure) {
        super(failure.message(), failure.cause());
        code = failure.isReply() ? failure.code() : NO_CODE;
        subject = failure.subject();
        tries = failure.tries();
        reason = failure.reason();
    }

    /**
     * Whether the same call may succeed later.
     *
     * @return true for time-outs and failed connecting, among others
     */
    public abstract boolean isRetryable();

    /**
     * The code of the error reply that decided the call.
     *
     * @return 0 … 999, or empty if none did
     */
    public OptionalInt code() {
        return code == NO_CODE ? OptionalInt.empty() : OptionalInt.of(code);
    }

    /**
     * The subject of the requests.
     *
     * @return for example {@code ids.segment.order}; null if the call had none yet
     */
    public @Nullable String subject() {
        return subject;
    }

    /**
     * The number of requests that the call sent.
     *
     * @return 0 or more; always 0 for a wait of an {@link IdSequence}
     */
    public long tries() {
        return tries;
    }

    /**
     * Why the call was still waiting when its time was over, or it was cancelled.
     * The cause is the {@link BusyException} or the {@link UnavailableException}, if
     * that was it.
     *
     * @return the latest reason; null if the call did not wait
     */
    public @Nullable Reason reason() {
        return reason;
    }
}
