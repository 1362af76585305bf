package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.testkit.Installation;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Row IDs of a client whose tag may be strict. */
class RowIdsTest {
    private final AtomicBoolean strict = new AtomicBoolean();
    private final AtomicLong ids = new AtomicLong();
    private final AtomicInteger sequences = new AtomicInteger();
    private final AtomicInteger open = new AtomicInteger();
    private final AtomicInteger calls = new AtomicInteger();
    private final List<Duration> timeouts = new ArrayList<>();
    private final List<String> log = new ArrayList<>();

    private final IdClient client = fake((proxy, method, arguments) -> switch (method.getName()) {
        case "prefetch" -> new Sequence();
        case "withTimeout" -> {
            synchronized (timeouts) {
                timeouts.add((Duration) arguments[0]);
            }
            yield proxy;
        }
        case "next" -> {
            calls.incrementAndGet();
            yield ids.incrementAndGet();
        }
        default -> throw new AssertionError(method);
    });

    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord event) {
            synchronized (log) {
                log.add(event.getMessage() + event.getParameters()[0]);
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    private static IdClient fake(InvocationHandler handler) {
        return (IdClient) Proxy.newProxyInstance(IdClient.class.getClassLoader(), new Class<?>[] {IdClient.class},
                handler);
    }

    /** A sequence that is refused once the tag is strict. */
    private final class Sequence implements IdSequence {
        private volatile boolean closed;

        Sequence() {
            sequences.incrementAndGet();
            open.incrementAndGet();
        }

        @Override
        public long next() {
            return next(Duration.ZERO);
        }

        @Override
        public long next(Duration timeout) {
            if (closed) {
                throw Failure.PREFETCHER_CLOSED.exception();
            }
            if (strict.get()) {
                throw Failure.reply(409, "the tag is strictly ordered").exception();
            }
            return ids.incrementAndGet();
        }

        @Override
        public void close() {
            if (!closed) {
                closed = true;
                open.decrementAndGet();
            }
        }
    }

    @BeforeEach
    void listen() {
        Logger logger = Logger.getLogger("io.github.idworker");
        logger.setUseParentHandlers(false);
        logger.addHandler(handler);
    }

    @AfterEach
    void listenNoMore() {
        Logger logger = Logger.getLogger("io.github.idworker");
        logger.removeHandler(handler);
        logger.setUseParentHandlers(true);
    }

    @Test
    void aTagHasOneSequence() {
        RowIds rows = RowIds.of(client);
        assertEquals(1, rows.next("order"));
        assertEquals(2, rows.next("order"));
        rows.next("user");
        assertEquals(2, sequences.get());
        assertEquals(0, calls.get());
        rows.close();
        assertEquals(0, open.get());
        assertThrows(ClosedException.class, () -> rows.next("order"));
    }

    @Test
    void manyThreadsMeetATagThatIsMadeStrict() throws Exception {
        RowIds rows = RowIds.of(client);
        Set<Long> taken = ConcurrentHashMap.newKeySet();
        int threads = 8;
        int each = 2000;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<?>> takers = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                takers.add(pool.submit(() -> {
                    for (int j = 0; j < each; j++) {
                        if (taken.size() > threads * each / 2) {
                            strict.set(true);
                        }
                        assertTrue(taken.add(rows.next("order")));
                    }
                }));
            }
            for (Future<?> taker : takers) {
                taker.get();
            }
        } finally {
            pool.shutdownNow();
        }
        assertEquals(threads * each, taken.size());
        assertTrue(calls.get() > 0);
        assertEquals(List.of("tag is strict, each row a request: tag={0}order"), log);
        assertEquals(0, open.get());
    }

    /** One thread learns that the tag is strict while another is about to take from its sequence. */
    @Test
    void aRowWhoseSequenceAnotherThreadClosesIsRequested() throws Exception {
        CountDownLatch bothTake = new CountDownLatch(2);
        CountDownLatch closed = new CountDownLatch(1);
        AtomicInteger takes = new AtomicInteger();
        IdSequence shared = (IdSequence) Proxy.newProxyInstance(IdClient.class.getClassLoader(),
                new Class<?>[] {IdSequence.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("close")) {
                        closed.countDown();
                        return null;
                    }
                    boolean learns = takes.incrementAndGet() == 1;
                    bothTake.countDown();
                    bothTake.await();
                    if (learns) {
                        throw Failure.reply(409, "the tag is strictly ordered").exception();
                    }
                    closed.await();
                    throw Failure.PREFETCHER_CLOSED.exception();
                });
        RowIds rows = RowIds.of(fake((proxy, method, arguments) -> switch (method.getName()) {
            case "prefetch" -> shared;
            case "withTimeout" -> proxy;
            default -> ids.incrementAndGet();
        }), Installation.PATIENCE, PrefetchOptions.DEFAULTS, Set.of());
        ExecutorService pool = Executors.newFixedThreadPool(2);
        try {
            Future<Long> one = pool.submit(() -> rows.next("order"));
            Future<Long> other = pool.submit(() -> rows.next("order"));
            assertEquals(3, one.get() + other.get());
        } finally {
            pool.shutdownNow();
        }
        assertEquals(1, log.size());
    }

    @Test
    void aDirectTagIsRequestedRowByRowWithTheWaitAsItsTime() {
        RowIds rows = RowIds.of(client, Duration.ofSeconds(1), PrefetchOptions.DEFAULTS, Set.of("order"));
        rows.next("order");
        assertEquals(1, calls.get());
        assertEquals(0, sequences.get());
        assertTrue(timeouts.get(0).compareTo(Duration.ofSeconds(1)) <= 0);
        assertTrue(log.isEmpty());
    }

    @Test
    void aWaitIsShortAndRetryable() {
        Environment real = Environment.real();
        FakeTransport silent = new FakeTransport(real);
        RowIds rows = RowIds.of(fake((proxy, method, arguments) -> silent.prefetch(PrefetchOptions.DEFAULTS)),
                Duration.ofMillis(1), PrefetchOptions.DEFAULTS, Set.of());
        IdworkerException error = assertThrows(CallTimeoutException.class, () -> rows.next("order"));
        assertTrue(error.isRetryable());
        rows.close();
        real.timers().end();
    }

    @Test
    void badOptionsAreRefused() {
        assertInstanceOf(BadConfigException.class, assertThrows(BadArgumentException.class,
                () -> RowIds.of(client, Duration.ZERO, PrefetchOptions.DEFAULTS, Set.of())));
        assertThrows(BadTagException.class,
                () -> RowIds.of(client, Duration.ofSeconds(1), PrefetchOptions.DEFAULTS, Set.of("a b")));
    }
}
