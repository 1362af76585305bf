package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.testkit.Installation;
import io.nats.client.Connection;
import io.nats.client.Nats;
import io.nats.client.Options;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The log names the first failed call and the first that succeeds again, and each loss of the connection. */
class OutagesTest {
    /** The time-out of a call that reads, also on a busy machine, why nobody answers. */
    private static final Duration REPLIED = Duration.ofSeconds(2);

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

    private List<String> ofConnection() {
        return log.lines().stream().filter(line -> line.contains("NATS")).toList();
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
        try (IdClient ids = IdClient.connect(options().withTimeout(REPLIED).withPrefix("calls"))) {
            assertThrows(CallTimeoutException.class, () -> ids.next("order"));
            assertThrows(ExecutionException.class, () -> ids.nextAsync("order").get());
            wantLines(failing("calls.segment.order"));
            Connection worker = worker("calls");
            IdClient patient = ids.withTimeout(Installation.PATIENCE);
            patient.nextAsync("order").get();
            Installation.await("a second without a failure",
                    () -> patient.next("order") > 0 && log.lines().size() > 1);
            patient.next("order");
            wantLines(failing("calls.segment.order"), again("calls.segment.order", 2));
            worker.close();
        }
    }

    @Test
    void rowsThatGetNoId() throws Exception {
        try (IdClient ids = IdClient.connect(options().withPrefix("rows"));
                RowIds rows = RowIds.of(ids, REPLIED, PrefetchOptions.DEFAULTS, Set.of());
                RowIds patient = RowIds.of(ids, Installation.PATIENCE, PrefetchOptions.DEFAULTS, Set.of())) {
            assertThrows(CallTimeoutException.class, () -> rows.next("order"));
            assertThrows(CallTimeoutException.class, () -> rows.next("order"));
            assertThrows(CallTimeoutException.class, rows::snowflake);
            wantLines(failing("rows.segment.order"), failing("rows.snowflake"));
            Connection worker = worker("rows");
            Installation.await("a second without a failure",
                    () -> patient.next("order") > 0 && log.lines().size() > 2);
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
            outages.failed(timeout("ids.segment.t" + i));
        }
        assertEquals(16, log.lines().size());
        time.advance(1234);
        outages.succeeded("ids.segment.t0");
        outages.succeeded("ids.segment.t999");
        assertEquals("INFO ID requests succeed again: subject=ids.segment.t0, failed_calls=1, duration=1234ms",
                log.lines().get(16));
        assertEquals(17, log.lines().size());
    }

    private static IdworkerException timeout(String subject) {
        return Failure.timeout(Failure.NO_REPLY, 1).in(subject, 1).exception();
    }

    @Test
    void callsThatFailAndSucceedInTurnsAreOneOutage() {
        VirtualTime time = new VirtualTime();
        Outages outages = new Outages(time);
        for (int i = 0; i < 1000; i++) {
            outages.failed(timeout("ids.segment.order"));
            time.advance(10);
            outages.succeeded("ids.segment.order");
        }
        time.advance(989);
        outages.succeeded("ids.segment.order");
        assertEquals(1, log.lines().size(), log.lines()::toString);
        time.advance(1);
        outages.succeeded("ids.segment.order");
        outages.succeeded("ids.segment.order");
        assertEquals("INFO ID requests succeed again: subject=ids.segment.order, failed_calls=1000, duration=10990ms",
                log.lines().get(1));
        assertEquals(2, log.lines().size(), log.lines()::toString);
    }

    /** A handler of the application whose backend is away, for example. */
    @Test
    void aLogThatThrowsDoesNotReachCalls() {
        VirtualTime time = new VirtualTime();
        Outages outages = new Outages(time);
        log.fail();
        outages.failed(timeout("ids.segment.order"));
        time.advance(1000);
        outages.succeeded("ids.segment.order");
        assertEquals(2, log.lines().size(), log.lines()::toString);
    }

    @Test
    void aLogThatThrowsDoesNotEndConnecting() {
        installation.createTag("order", "--if-missing");
        installation.stop();
        log.fail();
        try (IdClient ids = IdClient.connectInBackground(options())) {
            Installation.await("a line", () -> !log.lines().isEmpty());
            installation.restart();
            assertTrue(ids.withTimeout(Installation.PATIENCE).next("order") > 0);
        }
    }

    @Test
    void anErrorThatEndsTheThreadDoesNotEndConnecting() {
        installation.createTag("order", "--if-missing");
        AtomicBoolean once = new AtomicBoolean(true);
        try (IdClient ids = IdClient.connectInBackground(options().withNats(nats -> {
            if (isConnectThread() && once.getAndSet(false)) {
                throw new NoClassDefFoundError("of the application");
            }
            return nats;
        }))) {
            assertTrue(ids.withTimeout(Installation.PATIENCE).next("order") > 0);
            assertFalse(once.get());
        }
    }

    /** Tags of a template, for example: those of an earlier outage must not hide the next one. */
    @Test
    void subjectsThatAreNeverUsedAgainGiveUpTheirPlaces() {
        VirtualTime time = new VirtualTime();
        Outages outages = new Outages(time);
        for (int i = 0; i < 16; i++) {
            outages.failed(timeout("ids.segment.t" + i));
        }
        IdworkerException next = timeout("ids.segment.next");
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
            // The call may return before the thread that has connected logs so.
            Installation.await("two lines", () -> ofConnection().size() > 1);
            List<String> connection = ofConnection();
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
        Installation.await("the end of the thread", () -> !isConnecting());
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
        Installation.await("the end of the thread", () -> !isConnecting());
    }

    /** A server that keeps silent costs seconds, so no further one is asked. */
    @Test
    void aClientThatIsSuspendedOrClosedAsksNoFurtherServer() throws Exception {
        for (Consumer<IdClient> end : List.<Consumer<IdClient>>of(IdClient::suspend, IdClient::close)) {
            AtomicInteger asked = new AtomicInteger();
            List<ServerSocket> silent = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                ServerSocket server = new ServerSocket(0, 8, InetAddress.getLoopbackAddress());
                silent.add(server);
                Thread accepts = new Thread(() -> accept(server, asked));
                accepts.setDaemon(true);
                accepts.start();
            }
            String[] urls = silent.stream().map(s -> "nats://127.0.0.1:" + s.getLocalPort()).toArray(String[]::new);
            try (IdClient ids = IdClient.connectInBackground(IdClientOptions.DEFAULTS.withServers(urls))) {
                Installation.await("a server that is asked", () -> asked.get() == 1);
                end.accept(ids);
                Installation.await("the end of the thread", () -> !isConnecting());
                assertEquals(1, asked.get());
            }
            for (ServerSocket server : silent) {
                server.close();
            }
        }
    }

    private static void accept(ServerSocket server, AtomicInteger asked) {
        try (Socket first = server.accept()) {
            asked.incrementAndGet();
            first.getInputStream().readAllBytes();
        } catch (IOException e) {
            // the test is over
        }
    }

    /** As in a network that swallows packets. */
    @Test
    void closingDoesNotWaitForAnAttemptThatCannotBeInterrupted() throws Exception {
        CountDownLatch stuck = new CountDownLatch(1);
        IdClient ids = IdClient.connectInBackground(options().withNats(nats -> {
            while (isConnectThread() && stuck.getCount() > 0) {
                try {
                    stuck.await();
                } catch (InterruptedException e) {
                    // as a socket that connects
                }
            }
            return nats;
        }));
        CompletableFuture.runAsync(ids::close).get(Installation.PATIENCE.toSeconds(), TimeUnit.SECONDS);
        assertTrue(isConnecting());
        stuck.countDown();
        Installation.await("the end of the thread", () -> !isConnecting());
    }

    private static boolean isConnectThread() {
        return Thread.currentThread().getName().equals("idworker-connect");
    }

    private static boolean isConnecting() {
        return Thread.getAllStackTraces().keySet().stream().anyMatch(t -> t.getName().equals("idworker-connect"));
    }
}
