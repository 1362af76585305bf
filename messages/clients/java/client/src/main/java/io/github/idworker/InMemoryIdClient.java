package io.github.idworker;

import io.github.idworker.IdBatch.Range;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/**
 * Counters in memory, for tests. Every tag exists, and its IDs begin at 1. Tags and
 * counts are checked as {@link NatsIdClient} and a worker check them, so that a test
 * finds a malformed one.
 */
final class InMemoryIdClient implements IdClient {
    /** The key of the snowflake IDs' counter: no tag is empty. */
    private static final String SNOWFLAKE = "";

    /** The default of the workers' {@code --max-batch}. */
    private static final long MAX_BATCH = 10_000;

    private final Map<String, AtomicLong> last = new ConcurrentHashMap<>(); // by tag
    private volatile boolean closed;

    @Override
    public long next(String tag) {
        return next(tag, 1).ranges().get(0).first();
    }

    @Override
    public IdBatch next(String tag, long n) {
        Tags.check(tag);
        return take(tag, n);
    }

    @Override
    public long snowflake() {
        return snowflake(1).ranges().get(0).first();
    }

    @Override
    public IdBatch snowflake(long n) {
        return take(SNOWFLAKE, n);
    }

    private IdBatch take(String key, long n) {
        NatsIdClient.checkCount(n);
        if (closed) {
            throw Failure.CLIENT_CLOSED.exception();
        }
        if (n > MAX_BATCH) {
            String text = "count " + n + " is too large, allowed is a decimal from 1 to " + MAX_BATCH;
            String subject = key.equals(SNOWFLAKE) ? "ids.snowflake" : "ids.segment." + key;
            throw Failure.reply(400, text).in(subject, 1).exception();
        }
        long end = last.computeIfAbsent(key, unused -> new AtomicLong()).addAndGet(n);
        return new IdBatch(List.of(new Range(end - n + 1, end)));
    }

    @Override
    public CompletableFuture<Long> nextAsync(String tag) {
        return async(() -> next(tag));
    }

    @Override
    public CompletableFuture<IdBatch> nextAsync(String tag, long n) {
        return async(() -> next(tag, n));
    }

    @Override
    public CompletableFuture<Long> snowflakeAsync() {
        return async(this::snowflake);
    }

    @Override
    public CompletableFuture<IdBatch> snowflakeAsync(long n) {
        return async(() -> snowflake(n));
    }

    private static <T> CompletableFuture<T> async(Supplier<T> call) {
        try {
            return CompletableFuture.completedFuture(call.get());
        } catch (IdworkerException e) {
            return CompletableFuture.failedFuture(e);
        }
    }

    @Override
    public IdSequence prefetch(String tag, PrefetchOptions options) {
        Tags.check(tag);
        return new Sequence(() -> next(tag));
    }

    @Override
    public IdSequence prefetchSnowflake(PrefetchOptions options) {
        return new Sequence(this::snowflake);
    }

    @Override
    public IdClient withTimeout(Duration timeout) {
        IdClientOptions.checkTimeout(timeout);
        return this;
    }

    @Override
    public void suspend() {}

    @Override
    public void resume() {}

    @Override
    public void close() {
        closed = true;
    }

    /** A sequence without a buffer, which a counter does not need. */
    private static final class Sequence implements IdSequence {
        private final Supplier<Long> ids;
        private volatile boolean closed;

        Sequence(Supplier<Long> ids) {
            this.ids = ids;
        }

        @Override
        public long next() {
            if (closed) {
                throw Failure.PREFETCHER_CLOSED.exception();
            }
            return ids.get();
        }

        @Override
        public long next(Duration timeout) {
            return next();
        }

        @Override
        public void close() {
            closed = true;
        }
    }
}
