package io.github.idworker;

import java.time.Duration;
import java.util.Set;

/**
 * One ID for each row, for object-relational mappers, whose hooks ask for them
 * one by one: a sequence for each tag, made at its first use and shared by all
 * who ask for the tag.
 *
 * <p>A strict tag has no buffer, so each row costs a request; the log says so
 * once a tag. A wait is short, since a transaction may be open, and ends in a
 * retryable exception.
 *
 * <p>Thread-safe.
 */
public final class RowIds implements AutoCloseable {
    /** The longest wait by default. */
    public static final Duration DEFAULT_WAIT = Duration.ofSeconds(2);

    private RowIds() {}

    /** Returns the IDs of a client, which the caller closes. Waits are at most {@link #DEFAULT_WAIT}. */
    public static RowIds of(IdClient client) {
        return of(client, DEFAULT_WAIT, PrefetchOptions.DEFAULTS, Set.of());
    }

    /**
     * Returns the IDs of a client, which the caller closes.
     *
     * @param wait the longest wait for an ID, more than 0
     * @param direct the tags that are requested row by row, as strict tags are
     */
    public static RowIds of(IdClient client, Duration wait, PrefetchOptions options, Set<String> direct) {
        throw new UnsupportedOperationException();
    }

    /** Returns an ID of the tag. */
    public long next(String tag) {
        throw new UnsupportedOperationException();
    }

    /** Returns a snowflake ID. */
    public long snowflake() {
        throw new UnsupportedOperationException();
    }

    /** Closes the sequences; the client stays open. Idempotent. */
    @Override
    public void close() {}
}
