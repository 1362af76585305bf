package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.testkit.Installation;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A prefetcher on a transport that the test answers. What callers notice of it is in conformance cases, too. */
class PrefetcherTest {
    private static final PrefetchOptions SMALL = new PrefetchOptions(Duration.ofSeconds(1), 1000, 100);

    private final VirtualTime time = new VirtualTime();
    private final FakeTransport nats = new FakeTransport(time.environment());
    private final ExecutorService pool = Executors.newCachedThreadPool();

    @AfterEach
    void end() throws InterruptedException {
        pool.shutdownNow();
        assertTrue(pool.awaitTermination(Installation.PATIENCE.toSeconds(), TimeUnit.SECONDS));
    }

    /** Takes an ID beside the test, which runs what is due until then. */
    private long take(IdSequence ids) throws Exception {
        return end(begin(ids)).get();
    }

    /** Runs what is due until a take ends, at the latest by its time-out. */
    private Future<Long> end(Future<Long> taker) {
        while (!taker.isDone()) {
            time.run();
            Thread.onSpinWait();
        }
        return taker;
    }

    private Future<Long> begin(IdSequence ids) {
        return pool.submit((Callable<Long>) () -> ids.next(Installation.PATIENCE));
    }

    private void awaitRequests(int n) {
        Installation.await(n + " requests", () -> {
            time.run();
            return nats.sent.size() >= n;
        });
    }

    private static void wantFailure(Class<? extends Exception> kind, Future<Long> taker) {
        assertEquals(kind, assertThrows(ExecutionException.class, taker::get).getCause().getClass());
    }

    /** Returns a prefetcher with 100 IDs: 1 … 100, of which the first is taken. */
    private Prefetcher filled() throws Exception {
        Prefetcher ids = nats.prefetch(SMALL);
        nats.script = call -> {
            nats.granted.set(100);
            return Outcome.of(List.of(new IdBatch.Range(1, 1), new IdBatch.Range(2, 50), new IdBatch.Range(51, 100)));
        };
        assertEquals(1, take(ids));
        nats.script = null;
        return ids;
    }

    @Test
    void eightThreadsTakeEachIdOnceAcrossManyChunks() throws Exception {
        FakeTransport fast = new FakeTransport(Environment.real());
        fast.script = call -> {
            long last = fast.granted.addAndGet(call.request.n());
            long first = last - call.request.n() + 1;
            if (call.request.n() % 2 > 0) {
                return Outcome.of(List.of(new IdBatch.Range(first, last))); // a race in the range
            }
            return Outcome.of(LongStream.rangeClosed(first, last).mapToObj(id -> new IdBatch.Range(id, id)).toList());
        };
        int threads = 8;
        int each = 50_000;
        try (Prefetcher ids = fast.prefetch(new PrefetchOptions(Duration.ofSeconds(1), 10_000, 1001))) {
            List<Future<long[]>> takers = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                takers.add(pool.submit(() -> LongStream.generate(ids::next).limit(each).toArray()));
            }
            LongStream all = LongStream.empty();
            for (Future<long[]> taker : takers) {
                all = LongStream.concat(all, Arrays.stream(taker.get()));
            }
            long[] taken = all.sorted().toArray();
            assertEquals(threads * each, Arrays.stream(taken).distinct().count());
            assertTrue(taken[0] >= 1 && taken[taken.length - 1] <= fast.granted.get());
        }
    }

    @Test
    void closeEndsWaitsAndDropsWhatIsBufferedAndWhatComesLater() throws Exception {
        Prefetcher waits = nats.prefetch(SMALL);
        Future<Long> taker = begin(waits);
        awaitRequests(1);
        waits.close();
        wantFailure(ClosedException.class, taker);
        nats.reply(nats.last(), "7");
        assertThrows(ClosedException.class, waits::next);

        Prefetcher full = filled();
        full.close();
        full.close();
        assertThrows(ClosedException.class, full::next);
    }

    @Test
    void idsOfAMinuteAgoAreDroppedByTheTimer() throws Exception {
        for (long moved : new long[] {60_000, -2000}) {
            Prefetcher ids = filled();
            assertEquals(99, ids.figures().buffered());
            time.moveWall(moved);
            time.advance(1000);
            assertEquals(0, ids.figures().buffered());
            assertThrows(CallTimeoutException.class, () -> ids.next(Duration.ZERO));
        }
    }

    @Test
    void idsOfAMinuteAgoAreDroppedWhenTheirRangeBegins() throws Exception {
        Prefetcher ids = filled();
        LongStream.rangeClosed(2, 50).forEach(id -> assertEquals(id, ids.next()));
        time.moveWall(60_001);
        assertThrows(CallTimeoutException.class, () -> ids.next(Duration.ZERO));
        assertEquals(0, ids.figures().buffered());
    }

    @Test
    void idsBelowAMinuteOldAreUsed() throws Exception {
        Prefetcher ids = filled();
        time.moveWall(59_000);
        time.advance(1000);
        LongStream.rangeClosed(2, 100).forEach(id -> assertEquals(id, ids.next()));
    }

    @Test
    void aCopyUsesNothingFromBefore() throws Exception {
        Prefetcher ids = filled();
        int before = nats.sent.size();
        Future<Long> taker = pool.submit((Callable<Long>) () -> {
            LongStream.rangeClosed(2, 100).forEach(id -> ids.next());
            return ids.next(Installation.PATIENCE);
        });
        awaitRequests(before + 1);
        Call held = nats.last();
        ids.restart();
        assertEquals(new Prefetcher.Figures(0, 1, 1, 100), ids.figures());
        nats.reply(held, Long.toString(101 + held.request.n()));
        awaitRequests(before + 2);
        assertFalse(taker.isDone());
        nats.reply(nats.last(), "5000");
        assertEquals(5000, taker.get());
    }

    @Test
    void aCopyHasAnEmptyBuffer() throws Exception {
        Prefetcher ids = filled();
        ids.restart();
        assertEquals(0, ids.figures().buffered());
        assertThrows(CallTimeoutException.class, () -> ids.next(Duration.ZERO));
    }

    @Test
    void aTakeThatEndsHasTheReasonWhyRequestsAreUnanswered() throws Exception {
        Prefetcher ids = nats.prefetch(SMALL);
        begin(ids);
        awaitRequests(1);
        nats.last().accept(nats, FakeTransport.error(429, "too many"));
        CallTimeoutException error =
                assertThrows(CallTimeoutException.class, () -> ids.next(Duration.ofMillis(1)));
        assertEquals(Reason.BUSY, error.reason());
        assertEquals("request ids.segment.order: too many (429) (deadline exceeded)", error.getMessage());
    }

    @Test
    void aRefusedSnowflakeBatchBeginsAgainAtOne() throws Exception {
        Prefetcher ids = new Prefetcher("ids.snowflake", PrefetchOptions.DEFAULTS, time.environment(),
                (n, whenDone) -> new Call(Call.Request.prefetched("ids.snowflake", n, n > 1), nats, time.environment(),
                        Call.ENDLESS, whenDone),
                0, new Outages(time), closed -> {});
        nats.script = call -> call.request.n() > 1 ? FakeTransport.error(429, "too far ahead") : nats.grant(call);
        for (int i = 0; i < 20; i++) {
            take(ids);
            time.advance(1);
        }
        assertEquals(1, nats.last().request.n());
        nats.script = nats::grant;
        for (int i = 0; i < 50; i++) {
            take(ids);
            time.advance(1);
        }
        assertTrue(nats.last().request.n() > 1);
    }
}
