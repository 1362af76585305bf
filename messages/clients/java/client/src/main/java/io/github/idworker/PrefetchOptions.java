package io.github.idworker;

import java.time.Duration;

/**
 * How much an {@link IdSequence} buffers. Immutable.
 *
 * @param runway how long the buffer lasts at the present rate, 1 ms … 1 h; more
 *     than 10 s acts as 10 s, since old IDs are dropped
 * @param limit the most IDs buffered and in flight, besides the batch in use, 1 …
 *     10^9
 * @param maxBatch the most IDs of a request, 1 … 10^9; if the workers allow fewer,
 *     requests shrink by themselves
 */
public record PrefetchOptions(Duration runway, long limit, long maxBatch) {
    private static final Duration SHORTEST_RUNWAY = Duration.ofMillis(1);
    private static final Duration LONGEST_RUNWAY = Duration.ofHours(1);
    private static final long MOST_IDS = 1_000_000_000;

    /** A second, a million IDs, batches of 10,000. */
    public static final PrefetchOptions DEFAULTS = new PrefetchOptions(Duration.ofSeconds(1), 1_000_000, 10_000);

    /**
     * Checks the bounds.
     *
     * @param runway 1 ms … 1 h
     * @param limit 1 … 10^9
     * @param maxBatch 1 … 10^9
     * @throws BadConfigException if a value is out of them
     */
    public PrefetchOptions {
        if (runway.compareTo(SHORTEST_RUNWAY) < 0 || runway.compareTo(LONGEST_RUNWAY) > 0) {
            throw new BadConfigException("bad prefetch options: runway " + runway + ", allowed is 1 ms to 1 h");
        }
        check("limit", limit);
        check("maxBatch", maxBatch);
    }

    private static void check(String name, long value) {
        if (value < 1 || value > MOST_IDS) {
            throw new BadConfigException("bad prefetch options: " + name + " " + value + ", allowed is 1 to "
                    + MOST_IDS);
        }
    }
}
