package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.testkit.Installation;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The client against the real binary. */
class InstallationTest {
    private static Installation installation;
    private static IdClient client;

    @BeforeAll
    static void start() {
        installation = Installation.start();
        installation.createTag("order");
        installation.createTag("strict", "--order", "strict");
        client = IdClient.connect(IdClientOptions.DEFAULTS.withServers(installation.url()));
    }

    @AfterAll
    static void end() {
        client.close();
        installation.close();
    }

    @Test
    void callsReturnIds() throws Exception {
        long one = client.next("order");
        assertTrue(client.next("order") > one);
        IdBatch batch = client.next("order", 100);
        assertEquals(100, batch.size());
        assertEquals(100, batch.stream().distinct().count());
        assertTrue(client.snowflake() < client.snowflake());
        assertEquals(50, client.snowflake(50).size());
        assertTrue(client.nextAsync("order").get() > batch.stream().max().orElseThrow());
        assertEquals(3, client.snowflakeAsync(3).get().size());
    }

    @Test
    void aMillionPrefetchedByEightThreadsEachOnce() throws Exception {
        Process worker = installation.startWorker();
        int threads = 8;
        int each = 125_000;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try (IdSequence ids = client.prefetch("order")) {
            List<Future<long[]>> takers = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                boolean kills = i == 0;
                takers.add(pool.submit(() -> {
                    long[] taken = new long[each];
                    for (int j = 0; j < each; j++) {
                        taken[j] = ids.next();
                        if (kills && j == each / 4) {
                            Installation.kill(worker);
                        }
                    }
                    return taken;
                }));
            }
            LongStream all = LongStream.empty();
            for (Future<long[]> taker : takers) {
                all = LongStream.concat(all, Arrays.stream(taker.get()));
            }
            assertEquals((long) threads * each, all.distinct().count());
        } finally {
            pool.shutdownNow();
        }
    }

    @Test
    void strictTagsAreNotBuffered() {
        try (IdSequence ids = client.prefetch("strict")) {
            assertThrows(StrictTagException.class, ids::next);
        }
        try (RowIds rows = RowIds.of(client)) {
            assertTrue(rows.next("strict") < rows.next("strict"));
        }
    }
}
