package io.github.idworker;

import java.time.Duration;

/**
 * IDs of one tag, or snowflake IDs, from a buffer that fills itself before it is
 * empty. A take from the buffer costs nanoseconds and makes no garbage.
 *
 * <p>IDs are older than those that others get at the same time, and only tend to
 * rise. Those that are buffered or in flight when the process ends, or the
 * sequence is closed, are never used.
 *
 * <p>IDs that were buffered for a minute by the wall clock are dropped, as a copy
 * of the process would use them, too. The clock is read once a second, and when a
 * range of IDs begins. So a copy that is made without {@link IdClient#suspend}
 * may repeat IDs: for a second if it wakes after more than a minute, all of the
 * buffer if it wakes earlier. Do not clone a running process or its machine.
 *
 * <p>A strict tag has no sequence: {@link #next()} fails with
 * {@link StrictTagException}.
 *
 * <p>Thread-safe, also for virtual threads; each ID is returned once.
 */
public interface IdSequence extends AutoCloseable {
    /**
     * Returns an ID, and waits for one at most as long as the client's calls last.
     *
     * @return an ID that no other take returns
     * @throws IdworkerException as {@link #next(Duration)}
     */
    long next();

    /**
     * Returns an ID, and waits for one at most so long. While IDs are buffered it
     * does not wait, and ignores the time-out and interrupts.
     *
     * @param timeout the longest wait; 0 and less do not wait, and request nothing
     * @return an ID that no other take returns
     * @throws CallTimeoutException if none came in time; it has the latest reason
     * @throws CancelledException if the waiting thread is interrupted, which it stays
     * @throws ClosedException if the sequence or its client is closed
     * @throws IdworkerException that of a call which a retry does not cure; all
     *     takes that wait get it, and the next take asks again
     */
    long next(Duration timeout);

    /** Ends all waits with {@link ClosedException}. Buffered IDs are never used. Idempotent. */
    @Override
    void close();
}
