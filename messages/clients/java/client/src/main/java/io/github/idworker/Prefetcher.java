package io.github.idworker;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The sequence of a tag, or of snowflake IDs. A take from the current chunk is an
 * atomic addition. All else happens under a lock: the next chunk, requests,
 * replies, waits.
 *
 * <p>Invariant: while a caller waits, a request is in flight.
 */
final class Prefetcher implements IdSequence {
    /** Enough to hide the round trip, and few compared with what a worker parks. */
    private static final int MOST_REQUESTS = 16;

    /** An ID waits four runways at most at a steady rate; the rest of the age is for rates that fall. */
    private static final Duration LONGEST_RUNWAY = Duration.ofSeconds(10);

    private static final long MOST_AGE_MILLIS = 60_000;
    private static final long AGE_CHECK = TimeUnit.SECONDS.toNanos(1);

    private static final long NO_ID = 0;
    private static final Chunk USED_UP = new Chunk(1, 0, 0);

    /** Makes the prefetcher's calls. */
    interface Source {
        /** Returns a call for n IDs that has not started. It has no deadline. */
        Call call(long n, Consumer<Outcome> whenDone);
    }

    /** What a test can see. */
    record Figures(long buffered, long inFlight, long target, long batch) {}

    private volatile Chunk current = USED_UP;

    private final String subject;
    private final PrefetchOptions options;
    private final Environment environment;
    private final Source source;
    private final long timeout;
    private final Outages outages;
    private final Consumer<Prefetcher> whenClosed;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition woken = lock.newCondition();
    private final Pace pace;
    private final Deque<Chunk> stock = new ArrayDeque<>(); // after the current chunk
    private long stockIds;
    private long used; // IDs taken from the chunks before the current one
    private final Map<Object, Call> inFlight = new LinkedHashMap<>(); // by request
    private long inFlightIds;
    private long maxBatch; // the largest that the workers are believed to allow
    private long batch; // 1 after a refused batch of snowflake IDs, then twice that after each success
    private boolean failing; // the last request failed for good
    private @Nullable Failure reason; // why requests are unanswered
    private long waiters;
    private WakeUp wakeUp = new WakeUp();
    private boolean ages; // the timer runs
    private boolean closed;

    /**
     * Returns a prefetcher that has sent nothing.
     *
     * @param timeout of {@link #next()}, in nanoseconds
     */
    Prefetcher(String subject, PrefetchOptions options, Environment environment, Source source, long timeout,
            Outages outages, Consumer<Prefetcher> whenClosed) {
        this.subject = subject;
        this.options = options;
        this.environment = environment;
        this.source = source;
        this.timeout = timeout;
        this.outages = outages;
        this.whenClosed = whenClosed;
        pace = pace(options, environment.timers().now());
        maxBatch = options.maxBatch();
        batch = options.maxBatch();
    }

    static Pace pace(PrefetchOptions options, long now) {
        Duration runway = options.runway().compareTo(LONGEST_RUNWAY) < 0 ? options.runway() : LONGEST_RUNWAY;
        return new Pace(runway.toNanos(), options.limit(), now);
    }

    @Override
    public long next() {
        long id = current.take();
        return id != NO_ID ? id : nextOrWait(timeout);
    }

    @Override
    public long next(Duration timeout) {
        long id = current.take();
        return id != NO_ID ? id : nextOrWait(NatsIdClient.nanos(timeout));
    }

    private long nextOrWait(long nanos) {
        long id;
        try {
            id = lockedNextOrWait(nanos);
        } catch (IdworkerException e) {
            if (nanos > 0) { // else it only looked whether an ID is buffered
                outages.failed(e);
            }
            throw e;
        }
        outages.succeeded(subject);
        return id;
    }

    private long lockedNextOrWait(long nanos) {
        long end = System.nanoTime() + nanos;
        lock.lock();
        try {
            while (true) {
                if (closed) {
                    throw failed(Failure.PREFETCHER_CLOSED);
                }
                long id = takeBuffered();
                if (id != NO_ID) {
                    refill();
                    return id;
                }
                await(end);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Takes from the current chunk, or makes the next one current. A chunk too old empties the buffer. */
    private long takeBuffered() {
        long id = current.take();
        if (id != NO_ID) {
            return id;
        }
        Chunk next = stock.poll();
        if (next == null) {
            return NO_ID;
        }
        stockIds -= next.size;
        if (!isFresh(next)) {
            discard();
            return NO_ID;
        }
        used += current.taken();
        id = next.take(); // before others can
        current = next;
        return id;
    }

    /** Makes sure that a request is in flight, and waits until there are IDs, or an error for all. */
    private void await(long end) {
        if (Thread.currentThread().isInterrupted()) {
            throw failed(Failure.cancelled(reason(), 0));
        }
        if (end - System.nanoTime() <= 0) {
            throw failed(Failure.waitTimeout(reasonOrSilence()));
        }
        WakeUp mine = wakeUp;
        waiters++;
        try {
            refill();
            while (!mine.done) {
                long left = end - System.nanoTime();
                if (left <= 0) {
                    throw failed(Failure.waitTimeout(reasonOrSilence()));
                }
                woken.awaitNanos(left);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw failed(Failure.cancelled(reason(), 0));
        } finally {
            waiters--;
        }
        if (mine.failure != null) {
            throw mine.failure.exception();
        }
    }

    private IdworkerException failed(Failure failure) {
        return failure.in(subject, 0).exception();
    }

    private Failure reasonOrSilence() {
        Failure known = reason();
        return known == null ? Failure.NO_REPLY : known;
    }

    /** Why requests are unanswered; null if nothing is known. */
    private @Nullable Failure reason() {
        Failure latest = reason;
        for (Call call : inFlight.values()) {
            Failure its = call.reason();
            latest = its == null ? latest : its;
        }
        return latest;
    }

    private void wake(@Nullable Failure failure) {
        wakeUp.done = true;
        wakeUp.failure = failure;
        wakeUp = new WakeUp();
        woken.signalAll();
    }

    /** Starts requests if fewer IDs than half of the target are buffered and in flight. */
    private void refill() {
        long have = stockIds + inFlightIds;
        long awaited = Math.min(waiters, options.limit());
        if (have >= Pace.half(pace.target()) && have >= awaited) {
            return;
        }
        long missing = Math.max(pace.update(environment.timers().now(), taken()), awaited) - have;
        int most = failing ? 1 : MOST_REQUESTS;
        while (missing > 0 && inFlight.size() < most) {
            long n = Math.min(missing, Math.min(maxBatch, batch));
            missing -= n;
            request(n);
        }
    }

    /** Requests IDs in another thread: a call that fails at once must not report it under this lock. */
    private void request(long n) {
        Object request = new Object();
        Call call = source.call(n, outcome -> arrived(request, n, outcome));
        inFlight.put(request, call);
        inFlightIds += n;
        environment.timers().after(0, call::start);
    }

    private void arrived(Object request, long n, Outcome outcome) {
        lock.lock();
        try {
            if (inFlight.remove(request) == null) {
                return; // forgotten
            }
            inFlightIds -= n;
            Failure failure = outcome.failure();
            if (failure == null) {
                add(outcome.get());
                if (n == batch) {
                    batch = Math.min(2 * n, options.maxBatch());
                }
                failing = false;
                reason = null;
                wake(null);
            } else if (failure.kind() == Failure.Kind.MALFORMED && n > 1) {
                maxBatch = Math.min(maxBatch, n / 2); // the workers allow smaller ones
            } else if (failure.isTransient()) {
                // A batch may have more snowflake IDs than a worker makes ahead of its clock.
                batch = 1;
                reason = failure;
            } else {
                fail(failure);
                return;
            }
            refill();
        } finally {
            lock.unlock();
        }
    }

    /** Gives an error to all that wait. Nothing is requested before the next take that has to wait. */
    private void fail(Failure failure) {
        failing = true;
        if (failure.kind() == Failure.Kind.MALFORMED) {
            maxBatch = options.maxBatch(); // a request for one ID: the batches were not too large
        }
        wake(failure);
    }

    private void add(Iterable<IdBatch.Range> ranges) {
        long now = environment.wall().getAsLong();
        for (IdBatch.Range range : ranges) {
            Chunk chunk = new Chunk(range.first(), range.last() - range.first() + 1, now);
            stock.add(chunk);
            stockIds += chunk.size;
        }
        startAgeing();
    }

    private boolean isFresh(Chunk chunk) {
        long age = environment.wall().getAsLong() - chunk.arrived;
        return 0 <= age && age <= MOST_AGE_MILLIS;
    }

    private void startAgeing() {
        if (!ages) {
            ages = true;
            environment.timers().after(AGE_CHECK, this::checkAge);
        }
    }

    /** Drops the buffer if it is too old, and looks again in a second while something is buffered. */
    private void checkAge() {
        lock.lock();
        try {
            ages = false;
            Chunk oldest = current.left() > 0 ? current : stock.peek();
            if (oldest == null) {
                return;
            }
            if (isFresh(oldest)) {
                startAgeing();
            } else {
                discard();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Empties the buffer, also for those who have read the current chunk but not taken from it yet. */
    private void discard() {
        Chunk dropped = current;
        current = USED_UP;
        used += dropped.useUp();
        stock.clear();
        stockIds = 0;
        pace.restart(environment.timers().now(), taken());
    }

    private long taken() {
        return used + current.taken();
    }

    /** Drops all that is buffered or in flight; those who wait get IDs of further requests. */
    void restart() {
        lock.lock();
        try {
            forget();
            failing = false;
            reason = null;
            if (waiters > 0) {
                refill();
            }
        } finally {
            lock.unlock();
        }
    }

    private void forget() {
        discard();
        var forgotten = new ArrayDeque<>(inFlight.values());
        inFlight.clear();
        inFlightIds = 0;
        forgotten.forEach(Call::cancel);
    }

    @Override
    public void close() {
        lock.lock();
        try {
            if (closed) {
                return;
            }
            closed = true;
            forget();
            wake(null);
        } finally {
            lock.unlock();
        }
        whenClosed.accept(this);
    }

    Figures figures() {
        lock.lock();
        try {
            return new Figures(current.left() + stockIds, inFlightIds, pace.target(), Math.min(maxBatch, batch));
        } finally {
            lock.unlock();
        }
    }

    /** The end of a wait that many callers share. */
    private static final class WakeUp {
        private boolean done;
        private @Nullable Failure failure; // set before done
    }

    /** A range of buffered IDs. Its value counts takes, and passes its size when it is used up. */
    private static final class Chunk extends AtomicLong {
        private static final long serialVersionUID = 1L;

        private final long first;
        private final long size;
        private final long arrived; // by the wall clock

        Chunk(long first, long size, long arrived) {
            this.first = first;
            this.size = size;
            this.arrived = arrived;
        }

        /** Returns the next ID. It is counted by its offset, which cannot pass 2^63−1 as an ID could. */
        long take() {
            long offset = getAndIncrement();
            return offset < size ? first + offset : NO_ID;
        }

        long taken() {
            return Math.min(get(), size);
        }

        long left() {
            return size - taken();
        }

        /** Takes all that is left; returns how many were taken before. */
        long useUp() {
            return Math.min(getAndSet(size), size);
        }
    }
}
