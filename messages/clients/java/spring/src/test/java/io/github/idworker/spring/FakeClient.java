package io.github.idworker.spring;

import io.github.idworker.IdBatch;
import io.github.idworker.IdClient;
import io.github.idworker.IdSequence;
import io.github.idworker.PrefetchOptions;
import io.github.idworker.Tags;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;

/** Counts IDs up from a first one, and records what it is told; IDs of a suspended client are a bug. */
final class FakeClient implements IdClient {
    final List<String> events = new ArrayList<>();
    PrefetchOptions options = PrefetchOptions.DEFAULTS;
    Duration timeout = Duration.ZERO;
    private final AtomicLong last;
    private boolean suspended;

    FakeClient(long first) {
        last = new AtomicLong(first - 1);
    }

    @Override
    public long next(String tag) {
        if (suspended) {
            throw new AssertionError("an ID of " + tag + " while the client is suspended");
        }
        events.add(tag);
        return last.incrementAndGet();
    }

    @Override
    public IdSequence prefetch(String tag, PrefetchOptions options) {
        Tags.check(tag);
        events.add("prefetch " + tag);
        this.options = options;
        return new IdSequence() {
            @Override
            public long next() {
                return FakeClient.this.next(tag);
            }

            @Override
            public long next(Duration wait) {
                timeout = wait;
                return next();
            }

            @Override
            public void close() {}
        };
    }

    @Override
    public void suspend() {
        suspended = true;
        events.add("suspend");
    }

    @Override
    public void resume() {
        suspended = false;
        events.add("resume");
    }

    @Override
    public void close() {
        events.add("close");
    }

    @Override
    public IdClient withTimeout(Duration timeout) {
        this.timeout = timeout;
        return this;
    }

    @Override
    public IdBatch next(String tag, long n) {
        throw new UnsupportedOperationException();
    }

    @Override
    public long snowflake() {
        throw new UnsupportedOperationException();
    }

    @Override
    public IdBatch snowflake(long n) {
        throw new UnsupportedOperationException();
    }

    @Override
    public CompletableFuture<Long> nextAsync(String tag) {
        throw new UnsupportedOperationException();
    }

    @Override
    public CompletableFuture<IdBatch> nextAsync(String tag, long n) {
        throw new UnsupportedOperationException();
    }

    @Override
    public CompletableFuture<Long> snowflakeAsync() {
        throw new UnsupportedOperationException();
    }

    @Override
    public CompletableFuture<IdBatch> snowflakeAsync(long n) {
        throw new UnsupportedOperationException();
    }

    @Override
    public IdSequence prefetchSnowflake(PrefetchOptions options) {
        throw new UnsupportedOperationException();
    }
}
