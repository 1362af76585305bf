package io.github.idworker;

/**
 * How many IDs a prefetcher should buffer: twice what its callers take in a
 * runway, so that the half at which more are requested lasts a runway.
 *
 * <p>The target grows at once, since callers feel a lack, but at most by a factor
 * of two, since the first microseconds of a burst prove little. It shrinks once a
 * runway at most, since a moment without callers proves nothing.
 *
 * <p>Not thread-safe.
 */
final class Pace {
    private final long runway; // ns
    private final long limit;
    private long target = 1;
    private long since; // the time of the last measurement
    private long takenThen;

    Pace(long runwayNanos, long limit, long now) {
        runway = runwayNanos;
        this.limit = limit;
        since = now;
    }

    long target() {
        return target;
    }

    /** Begins again, as a new one does. */
    void restart(long now, long taken) {
        target = 1;
        since = now;
        takenThen = taken;
    }

    /** Returns the target, given the number of IDs taken by now. */
    long update(long now, long taken) {
        long elapsed = now - since;
        if (elapsed <= 0) {
            return target;
        }
        double want = 2.0 * (taken - takenThen) * runway / elapsed;
        if (want <= target && elapsed < runway) {
            return target; // too early to shrink
        }
        want = Math.min(want, Math.min(2.0 * target, limit));
        target = Math.max((long) want, half(target));
        since = now;
        takenThen = taken;
        return target;
    }

    /** Half of n, rounded up. */
    static long half(long n) {
        return n - n / 2;
    }
}
