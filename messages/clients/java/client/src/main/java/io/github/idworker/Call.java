package io.github.idworker;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A request, repeated until a reply decides it. It owns no thread: it acts when it
 * starts, when a reply arrives, and when a timer ends.
 *
 * <p>Replies to all tries count for as long as the call lasts, so a retry gives up
 * no request that a worker has parked.
 */
final class Call {
    /** Many times the latency of a reply from a buffer, and little for a caller. */
    private static final long FIRST_TRY = TimeUnit.MILLISECONDS.toNanos(50);

    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(1);

    /** The longest pause after silence: a frozen worker gets its share of the tries. */
    private static final long LONGEST_SILENCE = TimeUnit.MILLISECONDS.toNanos(250);

    /** How long a call that is over waits for replies that have arrived to be read. */
    private static final long GRACE = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long GRACE_STEP = TimeUnit.MILLISECONDS.toNanos(1);

    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int TOKEN_RADIX = 36;

    /** No deadline. */
    static final long ENDLESS = Long.MAX_VALUE;

    /**
     * What to request.
     *
     * @param n the number of IDs
     * @param prefetched the IDs are for later
     * @param hasty a transient failure ends the call, silence does not
     * @param traceparent the caller's trace; null if it has none
     */
    record Request(String subject, long n, boolean prefetched, boolean hasty, @Nullable String traceparent) {
        private static final byte[] ONE = {};

        /** Returns the request of a caller. */
        static Request of(String subject, long n, @Nullable String traceparent) {
            return new Request(subject, n, false, false, traceparent);
        }

        /** Returns the request of a sequence, which belongs to no trace. */
        static Request prefetched(String subject, long n, boolean hasty) {
            return new Request(subject, n, true, hasty, null);
        }

        /** The body of the message. */
        byte[] body() {
            return n == 1 ? ONE : Long.toString(n).getBytes(StandardCharsets.US_ASCII);
        }
    }

    final Request request;

    /**
     * The last token of the subject of its replies. It has 128 random bits, because whoever guesses it can have a
     * worker send this call the IDs of another request.
     */
    final String token = Long.toUnsignedString(RANDOM.nextLong(), TOKEN_RADIX) + Long.toUnsignedString(RANDOM.nextLong(), TOKEN_RADIX);

    private final Transport transport;
    private final Environment environment;
    private final long timeout;
    private final Consumer<Outcome> whenDone;

    private final ReentrantLock lock = new ReentrantLock();
    private long began;
    private long deadline;
    private long tries;
    private boolean first = true; // the first try's wait
    private boolean silent = true; // no transient reply in this wait
    private long pause = SHORTEST_PAUSE; // the upper bound of the next
    private long waitEnd;
    private long timerEnd;
    private Runnable stopTimer = () -> {};
    private @Nullable Object inbox; // where replies to the latest try arrive
    private volatile @Nullable Failure reason;
    private volatile @Nullable Outcome outcome;
    private volatile @Nullable Thread waiter;

    /**
     * Returns a call that has sent nothing.
     *
     * @param timeout in nanoseconds, or {@link #ENDLESS}
     * @param whenDone gets the outcome, once, in the thread that brings it; it must
     *     not block
     */
    Call(Request request, Transport transport, Environment environment, long timeout, Consumer<Outcome> whenDone) {
        this.request = request;
        this.transport = transport;
        this.environment = environment;
        this.timeout = timeout;
        this.whenDone = whenDone;
    }

    /** Sends the first request. */
    void start() {
        step(() -> {
            began = transport.admit(this);
            deadline = environment.timers().now() + timeout;
            long wait = jitter(SHORTEST_PAUSE);
            Failure problem = send();
            if (problem == null) {
                await(FIRST_TRY);
            } else if (isOver(problem)) {
                end(problem);
            } else {
                first = false;
                await(wait);
            }
        });
    }

    /** Reads a reply. Those that arrive after the end, or elsewhere than those of the latest try, are dropped. */
    void accept(Object arrivedAt, Outcome reply) {
        step(() -> {
            if (arrivedAt != inbox) {
                return;
            }
            Failure problem = reply.failure();
            if (problem == null) {
                end(reply);
            } else if (isOver(problem)) {
                end(problem);
            } else {
                reason = problem;
                silent = false;
                if (first) {
                    first = false;
                    await(jitter(SHORTEST_PAUSE));
                }
            }
        });
    }

    /** Ends the call, whose IDs are no longer wanted. */
    void cancel() {
        step(() -> end(Failure.cancelled(reason, tries)));
    }

    /** Ends the call with a failure. */
    void fail(Failure failure) {
        step(() -> end(failure));
    }

    /** Drops replies to the tries so far; the call goes on with further ones. */
    void forgetTries() {
        step(() -> inbox = null);
    }

    /** Sets where replies arrive. The transport calls it when it sends, before the request. */
    void setInbox(Object inbox) {
        this.inbox = inbox;
    }

    /** The time of {@link System#nanoTime} since when refusals are its own. */
    long began() {
        return began;
    }

    /** The latest transient failure; null if there was none. */
    @Nullable Failure reason() {
        return reason;
    }

    /** Waits for the outcome. An interrupt cancels the call, and stays set. */
    Outcome join() {
        waiter = Thread.currentThread();
        while (outcome == null) {
            if (Thread.currentThread().isInterrupted()) {
                cancel();
            } else {
                LockSupport.park(this);
            }
        }
        return outcome;
    }

    private void onTimer() {
        step(() -> {
            long now = environment.timers().now();
            if (now - timerEnd < 0) {
                return; // a timer that was replaced as it ended
            }
            Failure refusal = transport.refusal(this);
            if (refusal != null) {
                end(refusal);
            } else if (!isPast(now)) {
                tryAgain();
            } else if (transport.hasUnread() && now - deadline < GRACE) {
                setTimer(now + GRACE_STEP);
            } else {
                Failure why = reason;
                end(Failure.timeout(why == null ? Failure.NO_REPLY : why, tries));
            }
        });
    }

    private void tryAgain() {
        long wait = jitter(silent ? Math.min(pause, LONGEST_SILENCE) : pause);
        if (first) {
            first = false;
            reason = Failure.NO_REPLY;
        }
        if (silent) {
            transport.renewInbox();
        }
        Failure problem = send();
        if (problem == null) {
            pause = Math.min(2 * pause, LONGEST_PAUSE);
        } else if (isOver(problem)) {
            end(problem);
            return;
        }
        await(wait);
    }

    private @Nullable Failure send() {
        Failure problem = transport.send(this);
        if (problem == null) {
            tries++;
        } else if (problem.isTransient()) {
            reason = problem;
        }
        return problem;
    }

    private boolean isOver(Failure problem) {
        return request.hasty || !problem.isTransient();
    }

    private boolean isPast(long now) {
        return timeout != ENDLESS && now - deadline >= 0;
    }

    /** Waits for replies until it is time for another try. */
    private void await(long nanos) {
        silent = true;
        waitEnd = environment.timers().now() + nanos;
        setTimer(timeout != ENDLESS && deadline - waitEnd < 0 ? deadline : waitEnd);
    }

    private void setTimer(long end) {
        stopTimer.run();
        timerEnd = end;
        stopTimer = environment.timers().after(Math.max(0, end - environment.timers().now()), this::onTimer);
    }

    /** A random half to all of a pause: calls that failed together do not retry together. */
    private long jitter(long nanos) {
        return nanos / 2 + (long) (environment.random().getAsDouble() * (nanos - nanos / 2));
    }

    private void end(Failure failure) {
        end(Outcome.of(failure.in(request.subject, tries)));
    }

    private void end(Outcome ended) {
        stopTimer.run();
        transport.forget(this);
        outcome = ended;
    }

    /** Takes a step unless the call has ended, and reports its end without the lock. */
    private void step(Runnable transition) {
        Outcome ended;
        lock.lock();
        try {
            if (outcome != null) {
                return;
            }
            try {
                transition.run();
            } catch (RuntimeException | Error e) { // or nothing would end the call
                end(Failure.broken(e));
            }
            ended = outcome;
        } finally {
            lock.unlock();
        }
        if (ended != null) {
            whenDone.accept(ended);
            LockSupport.unpark(waiter);
        }
    }
}
