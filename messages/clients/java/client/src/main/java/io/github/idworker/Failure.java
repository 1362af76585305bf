package io.github.idworker;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Why a request or a call got no IDs. It becomes an exception in the thread that
 * throws it, so that each has its own stack.
 *
 * @param text what failed, without the subject
 * @param code that of an error reply, else 0
 * @param subject of the call; null before a call has it
 * @param why the latest transient failure of a call that did not go on
 */
record Failure(Kind kind, String text, int code, @Nullable String subject, long tries, @Nullable Failure why) {
    /** A kind, and the exception that it becomes. The names of transient kinds are those of {@link Reason}. */
    enum Kind {
        BUSY, UNAVAILABLE, NO_REPLY, NO_RESPONDERS, DISCONNECTED,
        MALFORMED, NO_TAG, STRICT, EXHAUSTED, CODE,
        BAD_REPLY, DENIED, CONNECTION, CLOSED, TIMEOUT, CANCELLED
    }

    static final Failure NO_REPLY = of(Kind.NO_REPLY, "no reply");
    static final Failure NO_RESPONDERS = of(Kind.NO_RESPONDERS, "no worker answered");
    static final Failure DISCONNECTED = of(Kind.DISCONNECTED, "disconnected");
    static final Failure CONNECTION_CLOSED = of(Kind.CONNECTION, "connection closed");
    static final Failure CONNECTION_DRAINING = of(Kind.CONNECTION, "connection draining");
    static final Failure CLIENT_CLOSED = of(Kind.CLOSED, "client is closed");
    static final Failure PREFETCHER_CLOSED = of(Kind.CLOSED, "sequence is closed");

    static final Failure ROWS_CLOSED = of(Kind.CLOSED, "source of row IDs is closed");

    static Failure of(Kind kind, String text) {
        return new Failure(kind, text, 0, null, 0, null);
    }

    /** Returns the failure of a request while there is no connection yet, or none any more. */
    static Failure notConnected(String why) {
        return of(Kind.DISCONNECTED, "disconnected: " + why);
    }

    /** Returns the failure that an error reply is. */
    static Failure reply(int code, String text) {
        Kind kind = switch (code) {
            case 400 -> Kind.MALFORMED;
            case 404 -> Kind.NO_TAG;
            case 409 -> Kind.STRICT;
            case 429 -> Kind.BUSY;
            case 503 -> Kind.UNAVAILABLE;
            case 507 -> Kind.EXHAUSTED;
            default -> Kind.CODE;
        };
        return new Failure(kind, String.format(Locale.ROOT, "%s (%03d)", text, code), code, null, 0, null);
    }

    /** Returns the failure of a call for which jnats or Java threw what no retry cures. */
    static Failure broken(Throwable why) {
        return of(Kind.CONNECTION, "cannot be sent: " + why);
    }

    /** Returns the failure of a call whose time is over. */
    static Failure timeout(Failure why, long tries) {
        String text = why.text + " (deadline exceeded after " + tries + (tries == 1 ? " try)" : " tries)");
        return new Failure(Kind.TIMEOUT, text, 0, null, tries, why);
    }

    /** Returns the failure of a wait for buffered IDs whose time is over. */
    static Failure waitTimeout(Failure why) {
        return new Failure(Kind.TIMEOUT, why.text + " (deadline exceeded)", 0, null, 0, why);
    }

    /** Returns the failure of a call that was cancelled, or whose thread was interrupted. */
    static Failure cancelled(@Nullable Failure why, long tries) {
        String text = (why == null ? "" : why.text + " (") + "cancelled after " + tries
                + (tries == 1 ? " try" : " tries") + (why == null ? "" : ")");
        return new Failure(Kind.CANCELLED, text, 0, null, tries, why);
    }

    /** Returns this failure as that of a call. */
    Failure in(@Nullable String subject, long tries) {
        return new Failure(kind, text, code, subject, tries, why);
    }

    /** Whether the same request may succeed a moment later. */
    boolean isTransient() {
        return switch (kind) {
            case BUSY, UNAVAILABLE, NO_REPLY, NO_RESPONDERS, DISCONNECTED -> true;
            default -> false;
        };
    }

    boolean isReply() {
        return switch (kind) {
            case BUSY, UNAVAILABLE, MALFORMED, NO_TAG, STRICT, EXHAUSTED, CODE -> true;
            default -> false;
        };
    }

    String message() {
        return subject == null ? text : "request " + subject + ": " + text;
    }

    @Nullable Reason reason() {
        return why == null ? null : Reason.valueOf(why.kind.name());
    }

    /** The cause of the exception: the refusal that a call waited to be taken back. */
    @Nullable IdworkerException cause() {
        return why != null && why.isReply() ? why.in(subject, tries).exception() : null;
    }

    IdworkerException exception() {
        return switch (kind) {
            case BUSY -> new BusyException(this);
            case UNAVAILABLE -> new UnavailableException(this);
            case MALFORMED -> new MalformedRequestException(this);
            case NO_TAG -> new NoSuchTagException(this);
            case STRICT -> new StrictTagException(this);
            case EXHAUSTED -> new ExhaustedException(this);
            case CODE -> new ErrorReplyException(this);
            case BAD_REPLY -> new BadReplyException(this);
            case DENIED -> new PermissionDeniedException(this);
            case CONNECTION -> new ConnectionEndedException(this);
            case CLOSED -> new ClosedException(this);
            case CANCELLED -> new CancelledException(this);
            case TIMEOUT, NO_REPLY, NO_RESPONDERS, DISCONNECTED -> new CallTimeoutException(this);
        };
    }
}
