package io.github.idworker;

import java.time.Duration;

/**
 * How much an {@link IdSequence} buffers. Immutable.
 *
 * @param runway how long the buffer lasts at the present rate, 1 ms … 1 h; more
 *     than 10 s acts as 10 s
 * @param limit the most IDs buffered and in flight, 1 … 10^9
 * @param maxBatch the most IDs of a request, 1 … 10^9
 */
public record PrefetchOptions(Duration runway, long limit, long maxBatch) {
    /** A second, a million IDs, batches of 10,000. */
    public static final PrefetchOptions DEFAULTS = new PrefetchOptions(Duration.ofSeconds(1), 1_000_000, 10_000);
}
