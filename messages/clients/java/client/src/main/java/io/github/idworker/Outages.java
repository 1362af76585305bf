package io.github.idworker;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Logs the first call of a subject that fails because no worker served it, and the
 * first one that succeeds when none has failed for a second: while calls succeed and
 * fail in turns, as under too much load, the outage goes on, and the log stays
 * short. What is wrong with the call itself, such as a tag that does not exist, is
 * no outage: its exception says enough.
 *
 * <p>While nothing fails, a call that succeeds costs the read of a field. Of
 * takes from a buffer only the first of each batch costs that.
 *
 * <p>Thread-safe.
 */
final class Outages {
    private static final Logger LOGGER = System.getLogger("io.github.idworker");

    /** More subjects fail unlogged: who uses a thousand tags needs one line, not a thousand. */
    private static final int MAX_SUBJECTS = 16;

    /** A subject that has not failed for so long gives its place to another: it may never be used again. */
    private static final long FORGOTTEN = TimeUnit.MINUTES.toNanos(1);

    /** A success sooner after a failure does not end the outage. */
    private static final long QUIET = TimeUnit.SECONDS.toNanos(1);

    private static final class Outage {
        private final long began;
        private long calls;
        private long latest; // when the latest call failed

        Outage(long began) {
            this.began = began;
        }
    }

    private final Environment.Timers timers;
    private final Map<String, Outage> failing = new ConcurrentHashMap<>(); // by subject; changed under the lock
    private volatile boolean any; // whether there is one

    Outages(Environment.Timers timers) {
        this.timers = timers;
    }

    /** Logs. An ID must not be lost, nor a connection, because a handler of the application throws an exception. */
    static void log(Level level, String format, Object... values) {
        try {
            LOGGER.log(level, format, values);
        } catch (Exception | Error e) {
            // there is no log to tell it to
        }
    }

    /** Counts a call that failed. The caller holds no lock: a log may block. */
    void failed(IdworkerException failure) {
        String subject = failure.subject();
        boolean outage = failure instanceof CallTimeoutException || failure instanceof ConnectionEndedException;
        if (!outage || subject == null) {
            return;
        }
        if (begins(subject)) {
            log(Level.WARNING, "ID requests fail: subject={0}, error={1}", subject, failure.getMessage());
        }
    }

    /** Counts a failed call; returns whether it is the first of an outage. */
    private synchronized boolean begins(String subject) {
        long now = timers.now();
        Outage its = failing.get(subject);
        if (its == null && failing.size() == MAX_SUBJECTS) {
            failing.values().removeIf(old -> now - old.latest > FORGOTTEN);
        }
        if (its == null && failing.size() < MAX_SUBJECTS) {
            its = new Outage(now);
            failing.put(subject, its);
            any = true;
        }
        if (its == null) {
            return false;
        }
        its.latest = now;
        its.calls++;
        return its.calls == 1;
    }

    /** Ends the outage of a subject, if it had one. The caller holds no lock. */
    void succeeded(String subject) {
        if (any && failing.containsKey(subject)) {
            end(subject);
        }
    }

    private void end(String subject) {
        long now = timers.now();
        Outage ended = remove(subject, now);
        if (ended != null) {
            long millis = TimeUnit.NANOSECONDS.toMillis(now - ended.began);
            log(Level.INFO, "ID requests succeed again: subject={0}, failed_calls={1}, duration={2}",
                    subject, Long.toString(ended.calls), millis + "ms");
        }
    }

    /** Returns null if there is no outage, or it may go on. */
    private synchronized @Nullable Outage remove(String subject, long now) {
        Outage its = failing.get(subject);
        if (its == null || now - its.latest < QUIET) {
            return null;
        }
        failing.remove(subject);
        any = !failing.isEmpty();
        return its;
    }
}
