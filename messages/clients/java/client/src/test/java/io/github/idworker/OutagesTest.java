package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.testkit.Installation;
import io.nats.client.Connection;
import io.nats.client.Nats;
import io.nats.client.Options;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The log names the first failed call and the first that succeeds again, and each loss of the connection. */
class OutagesTest {
    private static Installation installation;
    private final LogLines log = new LogLines();

    @BeforeAll
    static void start() {
        installation = Installation.start();
    }

    @AfterAll
    static void end() {
        installation.close();
    }

    @AfterEach
    void close() {
        log.close();
    }

    private IdClientOptions options() {
        return IdClientOptions.DEFAULTS.withServers(installation.url()).withTimeout(Duration.ofMillis(200));
    }

    private void wantLines(String... patterns) {
        assertEquals(patterns.length, log.lines().size(), log.lines()::toString);
        for (int i = 0; i < patterns.length; i++) {
            assertTrue(log.lines().get(i).matches(patterns[i]), log.lines()::toString);
        }
    }

    private static String failing(String subject) {
        return "WARNING ID requests fail: subject=" + subject + ", error=request " + subject
                + ": no worker answered \\(deadline exceeded.*\\)";
    }

    private static String again(String subject, int calls) {
        return "INFO ID requests succeed again: subject=" + subject + ", failed_calls=" + calls
                + ", duration=[0-9]+ms";
    }

    /** Serves a prefix that no worker has. */
    private static Connection worker(String prefix) throws Exception {
        Connection nats = Nats.connect(installation.url());
        AtomicLong last = new AtomicLong();
        nats.createDispatcher(request -> {
            String body = new String(request.getData(), StandardCharsets.US_ASCII);
            long n = body.isEmpty() ? 1 : Long.parseLong(body);
            long end = last.addAndGet(n);
            nats.publish(request.getReplyTo(), new IdBatch.Range(end - n + 1, end).toString().getBytes());
        }).subscribe(prefix + ".>");
        nats.flush(Installation.PATIENCE);
        return nats;
    }

    @Test
    void callsThatNobodyAnswers() throws Exception {
        try (IdClient ids = IdClient.connect(options().withPrefix("calls"))) {
            assertThrows(CallTimeoutException.class, () -> ids.next("order"));
            assertThrows(ExecutionException.class, () -> ids.nextAsync("order").get());
            wantLines(failing("calls.segment.order"));
            Connection worker = worker("calls");
            ids.withTimeout(Installation.PATIENCE).nextAsync("order").get();
            ids.withTimeout(Installation.PATIENCE).next("order");
            wantLines(failing("calls.segment.order"), again("calls.segment.order", 2));
            worker.close();
        }
    }

    @Test
    void rowsThatGetNoId() throws Exception {
        try (IdClient ids = IdClient.connect(options().withPrefix("rows"));
                RowIds rows = RowIds.of(ids, Duration.ofMillis(200), PrefetchOptions.DEFAULTS, Set.of());
                RowIds patient = RowIds.of(ids, Installation.PATIENCE, PrefetchOptions.DEFAULTS, Set.of())) {
            assertThrows(CallTimeoutException.class, () -> rows.next("order"));
            assertThrows(CallTimeoutException.class, () -> rows.next("order"));
            assertThrows(CallTimeoutException.class, rows::snowflake);
            wantLines(failing("rows.segment.order"), failing("rows.snowflake"));
            Connection worker = worker("rows");
            patient.next("order");
            patient.next("order");
            wantLines(failing("rows.segment.order"), failing("rows.snowflake"), again("rows.segment.order", 2));
            worker.close();
        }
    }

    @Test
    void whatTheCallerDoesIsNoOutage() {
        installation.createTag("strict", "--order", "strict", "--if-missing");
        try (IdClient ids = IdClient.connect(options().withTimeout(Installation.PATIENCE))) {
            assertThrows(NoSuchTagException.class, () -> ids.next("missing"));
            assertThrows(MalformedRequestException.class, () -> ids.next("strict", 1_000_000_000));
            assertThrows(StrictTagException.class, () -> ids.prefetch("strict").next());
            assertThrows(CallTimeoutException.class, () -> ids.prefetch("other").next(Duration.ZERO));
            Thread.currentThread().interrupt();
            assertThrows(CancelledException.class, () -> ids.next("strict"));
            assertTrue(Thread.interrupted());
        }
        try (IdClient ids = IdClient.connect(options().withTimeout(Installation.PATIENCE).withPrefix("nobody"))) {
            CompletableFuture<Long> call = ids.nextAsync("order");
            call.cancel(false);
        }
        wantLines();
    }

    @Test
    void aThousandSubjectsGetSixteenLines() {
        VirtualTime time = new VirtualTime();
        Outages outages = new Outages(time);
        for (int i = 0; i < 1000; i++) {
            outages.failed(Failure.timeout(Failure.NO_REPLY, 1).in("ids.segment.t" + i, 1).exception());
        }
        assertEquals(16, log.lines().size());
        time.advance(1234);
        outages.succeeded("ids.segment.t0");
        outages.succeeded("ids.segment.t999");
        assertEquals("INFO ID requests succeed again: subject=ids.segment.t0, failed_calls=1, duration=1234ms",
                log.lines().get(16));
        assertEquals(17, log.lines().size());
    }

    /** Tags of a template, for example: those of an earlier outage must not hide the next one. */
    @Test
    void subjectsThatAreNeverUsedAgainGiveUpTheirPlaces() {
        VirtualTime time = new VirtualTime();
        Outages outages = new Outages(time);
        for (int i = 0; i < 16; i++) {
            outages.failed(Failure.timeout(Failure.NO_REPLY, 1).in("ids.segment.t" + i, 1).exception());
        }
        IdworkerException next = Failure.timeout(Failure.NO_REPLY, 1).in("ids.segment.next", 1).exception();
        time.advance(50_000);
        outages.failed(next);
        assertEquals(16, log.lines().size());
        time.advance(11_000);
        outages.failed(next);
        assertEquals(17, log.lines().size());
        assertTrue(log.lines().get(16).startsWith("WARNING ID requests fail: subject=ids.segment.next"));
    }

    /** The own connection of one client, and the connection that the application gives to another. */
    @Test
    void aConnectionThatIsLostAndComesBack() throws Exception {
        installation.createTag("order", "--if-missing");
        Connection given = Nats.connect(Options.builder().server(installation.url()).maxReconnects(-1).build());
        try (IdClient owns = IdClient.connect(options());
                IdClient borrows = IdClient.of(given, IdClientOptions.DEFAULTS.withTimeout(Installation.PATIENCE))) {
            installation.stop();
            Installation.await("two lines", () -> log.lines().size() == 2);
            wantLines("WARNING NATS connection lost: error=.*", "WARNING NATS connection lost: error=.*");
            CallTimeoutException away = assertThrows(CallTimeoutException.class, () -> owns.next("order"));
            assertEquals(Reason.DISCONNECTED, away.reason());
            installation.restart();
            Installation.await("two lines more",
                    () -> log.lines().stream().filter(line -> line.startsWith("INFO NATS")).count() == 2);
            String restored = "INFO NATS connection restored: server=" + installation.url();
            assertEquals(2, log.lines().stream().filter(restored::equals).count(), log.lines()::toString);
            borrows.next("order");
        }
        given.close();
        assertEquals(2, log.lines().stream().filter(line -> line.contains("lost")).count(), log.lines()::toString);
    }

    @Test
    void aClientThatConnectsInTheBackgroundSaysWhatItWaitsFor() {
        installation.createTag("order", "--if-missing");
        installation.stop();
        try (IdClient ids = IdClient.connectInBackground(options())) {
            CallTimeoutException away = assertThrows(CallTimeoutException.class,
                    () -> Installation.await("an error that names the server", () -> {
                        CallTimeoutException error =
                                assertThrows(CallTimeoutException.class, () -> ids.next("order"));
                        assertEquals(Reason.DISCONNECTED, error.reason());
                        if (!error.getMessage().contains("Connection refused")) {
                            return false;
                        }
                        throw error;
                    }));
            assertTrue(away.getMessage().startsWith(
                    "request ids.segment.order: disconnected: connect to " + installation.url() + ": "),
                    away.getMessage());
            installation.restart();
            assertTrue(ids.withTimeout(Installation.PATIENCE).next("order") > 0);
            List<String> connection = log.lines().stream().filter(line -> line.contains("NATS")).toList();
            assertEquals(2, connection.size(), log.lines()::toString);
            assertTrue(connection.get(0).startsWith("WARNING no NATS connection yet, retrying: error=connect to "),
                    connection::toString);
            assertEquals("INFO NATS connection restored: server=" + installation.url(), connection.get(1));
        }
    }

    @Test
    void aClientThatNeverConnectsCanBeClosed() {
        IdClient ids = IdClient.connectInBackground(IdClientOptions.DEFAULTS.withServers("nats://127.0.0.1:1"));
        assertTrue(isConnecting());
        ids.close();
        assertThrows(ClosedException.class, () -> ids.next("order"));
        assertFalse(isConnecting());
        assertThrows(BadConfigException.class, () -> IdClient.connectInBackground(
                IdClientOptions.DEFAULTS.withServers("nats://127.0.0.1:x")));
    }

    /** A copy of the process must not find a thread that connects on its own. */
    @Test
    void aCheckpointEndsConnectingUntilTheNextCall() {
        try (IdClient ids = IdClient.connectInBackground(options().withServers("nats://127.0.0.1:1"))) {
            ids.suspend();
            assertFalse(isConnecting());
            assertThrows(CallTimeoutException.class, () -> ids.next("order"));
            assertFalse(isConnecting());
            ids.resume();
            assertThrows(CallTimeoutException.class, () -> ids.next("order"));
            assertTrue(isConnecting());
        }
        assertFalse(isConnecting());
    }

    private static boolean isConnecting() {
        return Thread.getAllStackTraces().keySet().stream().anyMatch(t -> t.getName().equals("idworker-connect"));
    }
}
