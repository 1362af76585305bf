package io.github.idworker;

import java.time.Duration;

/**
 * IDs of one tag, or snowflake IDs, from a buffer that fills itself before it is
 * empty. A take from the buffer costs nanoseconds and makes no garbage.
 *
 * <p>IDs are older than those which others get at the same time, and only tend to
 * rise. Those that are buffered when the process ends are never used. IDs that
 * were buffered for a minute by the wall clock are dropped, as a copy of the
 * process would use them, too.
 *
 * <p>A strict tag has no sequence: {@link #next()} fails with
 * {@link StrictTagException}.
 *
 * <p>Thread-safe; each ID is returned once.
 */
public interface IdSequence extends AutoCloseable {
    /** Returns an ID, and waits for one at most as long as the client's time-out. */
    long next();

    /**
     * Returns an ID, and waits for one at most so long.
     *
     * @throws CallTimeoutException if none came in time, with the reason
     */
    long next(Duration timeout);

    /** Ends all waits with {@link ClosedException}. Buffered IDs are never used. Idempotent. */
    @Override
    void close();
}
