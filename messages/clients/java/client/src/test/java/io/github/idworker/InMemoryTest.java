package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The client for tests of applications: counters that refuse what the real client refuses. */
class InMemoryTest {
    private final IdClient ids = IdClient.inMemory();

    @Test
    void eachTagCountsFromOne() throws Exception {
        assertEquals(1, ids.next("order"));
        assertEquals(List.of(new IdBatch.Range(2, 101)), ids.next("order", 100).ranges());
        assertEquals(1, ids.next("invoice"));
        assertEquals(102, ids.nextAsync("order").get());
        assertEquals(103, ids.prefetch("order").next());
        assertEquals(104, RowIds.of(ids).next("order"));
        assertEquals(105, ids.withTimeout(Duration.ofSeconds(1)).nextAsync("order", 1).get().iterator().next());
        assertEquals(1, ids.snowflake());
        assertEquals(2, ids.prefetchSnowflake().next(Duration.ZERO));
        assertEquals(3, RowIds.of(ids).snowflake());
        assertEquals(4, ids.snowflakeAsync().get());
        assertEquals(2, ids.snowflakeAsync(2).get().size());
        assertEquals(7, ids.snowflake(1).iterator().next());
        assertEquals(1, IdClient.inMemory().next("order"));
    }

    @Test
    void threadsShareIt() {
        Set<Long> taken = ConcurrentHashMap.newKeySet();
        IntStream.range(0, 10_000).parallel().forEach(i -> taken.add(ids.next("order")));
        assertEquals(10_000, taken.size());
    }

    @Test
    void whatTheRealClientRefuses() {
        assertThrows(BadTagException.class, () -> ids.next("my order"));
        assertThrows(BadTagException.class, () -> ids.next(""));
        assertThrows(BadTagException.class, () -> ids.prefetch("my order"));
        assertThrows(BadCountException.class, () -> ids.next("order", 0));
        assertThrows(BadConfigException.class, () -> ids.withTimeout(Duration.ZERO));
        assertEquals(BadTagException.class,
                assertThrows(ExecutionException.class, () -> ids.nextAsync("my order").get()).getCause().getClass());
        IdSequence sequence = ids.prefetch("order");
        IdSequence ended = ids.prefetch("order");
        ended.close();
        assertThrows(ClosedException.class, ended::next);
        ids.close();
        assertThrows(ClosedException.class, () -> ids.next("order"));
        assertThrows(ClosedException.class, sequence::next);
    }

    /** More than a worker allows, if no flag says otherwise. */
    @Test
    void batchesThatAWorkerRefuses() {
        assertEquals(10_000, ids.next("order", 10_000).size());
        assertEquals("request ids.segment.order: count 10001 is too large, allowed is a decimal from 1 to 10000 (400)",
                assertThrows(MalformedRequestException.class, () -> ids.next("order", 10_001)).getMessage());
        assertEquals("request ids.snowflake: count 10001 is too large, allowed is a decimal from 1 to 10000 (400)",
                assertThrows(MalformedRequestException.class, () -> ids.snowflake(10_001)).getMessage());
        assertThrows(MalformedRequestException.class, () -> ids.next("order", Long.MAX_VALUE));
        assertEquals(MalformedRequestException.class, assertThrows(ExecutionException.class,
                () -> ids.nextAsync("order", 1_000_000_000_000L).get()).getCause().getClass());
        assertEquals(10_001, ids.next("order"));
    }

    @Test
    void batchesOfTests() {
        assertEquals("[7, 1001-1003]", IdBatch.of(new IdBatch.Range(7, 7), new IdBatch.Range(1001, 1003)).toString());
        assertThrows(IllegalArgumentException.class, IdBatch::of);
        assertThrows(IllegalArgumentException.class, () -> IdBatch.of(new IdBatch.Range(0, 1)));
        assertThrows(IllegalArgumentException.class, () -> IdBatch.of(new IdBatch.Range(3, 2)));
        assertThrows(IllegalArgumentException.class,
                () -> IdBatch.of(new IdBatch.Range(1, 3), new IdBatch.Range(3, 4)));
    }
}
