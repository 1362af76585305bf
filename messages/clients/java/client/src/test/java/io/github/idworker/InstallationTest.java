package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.testkit.Installation;
import io.nats.client.Connection;
import io.nats.client.Nats;
import io.nats.client.Options;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import org.crac.Core;
import org.crac.Resource;
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
        installation.createTag("last", "--step", "1", "--first", "9223372036854775806");
        client = IdClient.connect(options());
    }

    @AfterAll
    static void end() {
        client.close();
        installation.close();
    }

    /** Options of calls and connecting that only a hang ends. */
    private static IdClientOptions options() {
        return IdClientOptions.DEFAULTS.withServers(installation.url()).withTimeout(Installation.PATIENCE)
                .withNats(InstallationTest::patient);
    }

    private static Options.Builder patient(Options.Builder nats) {
        return nats.connectionTimeout(Installation.PATIENCE);
    }

    private static Connection connection() throws Exception {
        return Nats.connect(patient(Options.builder().server(installation.url())).build());
    }

    private static void wantMessage(String message, IdworkerException error) {
        assertEquals(message, error.getMessage());
        assertFalse(error.isRetryable());
    }

    @Test
    void callsReturnIds() throws Exception {
        long one = client.next("order");
        assertTrue(client.next("order") > one);
        IdBatch batch = client.next("order", 10_000);
        assertEquals(10_000, batch.size());
        assertEquals(10_000, batch.stream().distinct().count());
        assertTrue(client.snowflake() < client.snowflake());
        assertEquals(50, client.snowflake(50).size());
        assertEquals(1, client.nextAsync("order", 1).get().size());
        assertTrue(client.nextAsync("order").get() > batch.stream().max().orElseThrow());
        assertTrue(client.snowflakeAsync().get() < client.snowflakeAsync(3).get().iterator().nextLong());
        try (IdSequence ids = client.prefetchSnowflake()) {
            assertEquals(1000, LongStream.generate(ids::next).limit(1000).distinct().count());
        }
    }

    @Test
    void aTraceIsAskedForOnceInTheThreadThatCalls() throws Exception {
        List<String> asked = new ArrayList<>();
        BlockingQueue<String> sent = new LinkedBlockingQueue<>();
        Connection nats = connection();
        nats.createDispatcher(request -> sent.add(request.getHeaders().getFirst("traceparent")))
                .subscribe("ids.segment.order");
        nats.flush(Installation.PATIENCE);
        IdClient ids = IdClient.of(nats, options().withTraceparent(() -> {
            asked.add(Thread.currentThread().getName());
            return "trace-" + asked.size();
        }));
        ids.next("order");
        ids.nextAsync("order", 5).get();
        String trace = sent.take();
        assertEquals("trace-1", trace);
        while (trace.equals("trace-1")) { // the call may have sent its request again
            trace = sent.take();
        }
        assertEquals("trace-2", trace);
        assertEquals(Set.of(Thread.currentThread().getName()), Set.copyOf(asked));
        assertEquals(2, asked.size());
        nats.close();
    }

    @Test
    void aConnectionWithoutHeadersSendsNoTrace() {
        IdClientOptions traced = options().withTraceparent(() -> "00-1-2-01")
                .withNats(nats -> patient(nats).noHeaders().noNoResponders());
        try (IdClient ids = IdClient.connect(traced)) {
            assertTrue(ids.next("order") > 0);
        }
    }

    @Test
    void strictTagsAreNotBuffered() {
        try (IdSequence ids = client.prefetch("strict")) {
            assertEquals(409, assertThrows(StrictTagException.class, ids::next).code().orElseThrow());
        }
        try (RowIds rows = RowIds.of(client, Installation.PATIENCE, PrefetchOptions.DEFAULTS, Set.of())) {
            assertTrue(rows.next("strict") < rows.next("strict"));
        }
    }

    @Test
    void badArgumentsAreRefusedBeforeAnythingIsSent() {
        wantMessage("malformed tag: ' ' at byte 5, allowed are A-Z a-z 0-9 _ - and dots between tokens",
                assertThrows(BadTagException.class, () -> client.next("order item")));
        assertThrows(BadTagException.class, () -> client.prefetch(""));
        wantMessage("bad count: 0, allowed is 1 or more",
                assertThrows(BadCountException.class, () -> client.next("order", 0)));
        assertEquals(BadTagException.class, assertThrows(ExecutionException.class,
                () -> client.nextAsync("order.").get()).getCause().getClass());
        wantMessage("bad time-out: PT0S, allowed is more than 0",
                assertThrows(BadConfigException.class, () -> client.withTimeout(Duration.ZERO)));
        wantMessage("bad prefix: \"Ids\" has 'I' at byte 0, allowed are a-z 0-9 _ -",
                assertThrows(BadPrefixException.class, () -> IdClientOptions.DEFAULTS.withPrefix("Ids")));
        wantMessage("bad prefetch options: runway PT0S, allowed is 1 ms to 1 h",
                assertThrows(BadConfigException.class, () -> new PrefetchOptions(Duration.ZERO, 1, 1)));
        wantMessage("bad servers: none, allowed are URLs such as nats://127.0.0.1:4222",
                assertThrows(BadConfigException.class, () -> IdClientOptions.DEFAULTS.withServers()));
        wantMessage("bad inbox prefix: \"_INBOX.>\", allowed are tokens without spaces and wildcards, joined by "
                + "single dots", assertThrows(BadConfigException.class,
                () -> IdClientOptions.DEFAULTS.withInboxPrefix("_INBOX.>")));
    }

    @Test
    void aWrongServerAndABadOptionAreErrorsOfConnecting() {
        IdworkerException none = assertThrows(ConnectFailedException.class,
                () -> IdClient.connect(IdClientOptions.DEFAULTS.withServers("nats://u:secret@127.0.0.1:1")));
        assertEquals("connect to nats://127.0.0.1:1: java.net.ConnectException: Connection refused",
                none.getMessage());
        IdworkerException url = assertThrows(BadConfigException.class,
                () -> IdClient.connect(IdClientOptions.DEFAULTS.withServers("nats://u:sec ret@127.0.0.1:x")));
        assertFalse(url.getMessage().contains("sec"), url.getMessage());
        assertThrows(BadConfigException.class, () -> IdClient.connect(IdClientOptions.DEFAULTS.withCredentials(
                Path.of("no", "such.creds"))));
    }

    @Test
    void aWrongPasswordIsAnErrorOfConnecting() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 8, InetAddress.getLoopbackAddress())) {
            Thread refuses = new Thread(() -> refuseLogins(server));
            refuses.setDaemon(true);
            refuses.start();
            String url = "nats://127.0.0.1:" + server.getLocalPort();
            // jnats waits for as long as it may connect, although the server has replied.
            IdClientOptions options = IdClientOptions.DEFAULTS.withServers(url).withUser("caller", "secret")
                    .withNats(nats -> nats.connectionTimeout(Duration.ofSeconds(1)));
            Installation.await("the error of a wrong password", () -> {
                String text = assertThrows(ConnectFailedException.class, () -> IdClient.connect(options)).getMessage();
                assertFalse(text.contains("secret"), text);
                return text.startsWith("connect to " + url + ": the server refuses the login: ");
            });
        }
    }

    /** Does what a NATS server with users does, until its socket is closed. */
    private static void refuseLogins(ServerSocket server) {
        while (!server.isClosed()) {
            try (Socket socket = server.accept()) {
                socket.getOutputStream().write(
                        "INFO {\"version\":\"2.15.0\",\"headers\":true,\"auth_required\":true}\r\n".getBytes());
                new BufferedReader(new InputStreamReader(socket.getInputStream())).readLine();
                socket.getOutputStream().write("-ERR 'Authorization Violation'\r\n".getBytes());
            } catch (IOException e) {
                // the client or the test has left
            }
        }
    }

    @Test
    void aClosedClientEndsEverything() throws Exception {
        Connection connection = connection();
        IdClient borrows = IdClient.of(connection, IdClientOptions.DEFAULTS.withPrefix("other"));
        IdSequence ids = borrows.prefetch("order");
        CompletableFuture<Long> waits = borrows.nextAsync("order");
        borrows.withTimeout(Duration.ofSeconds(1)).close();
        assertEquals(ClosedException.class, assertThrows(ExecutionException.class, waits::get).getCause().getClass());
        wantMessage("request other.segment.order: client is closed",
                assertThrows(ClosedException.class, () -> borrows.next("order")));
        assertThrows(ClosedException.class, ids::next);
        assertThrows(ClosedException.class, () -> borrows.prefetch("order").next());
        assertEquals(Connection.Status.CONNECTED, connection.getStatus());
        connection.close();
    }

    @Test
    void anAsyncResultMayBeWaitedForInTheThreadOfAnother() throws Exception {
        assertTrue(client.nextAsync("order").thenApply(id -> client.next("order") > id).get());
    }

    @Test
    void aFirstCallInAnInterruptedThreadSubscribesForAll() throws Exception {
        Thread.currentThread().interrupt();
        CompletableFuture<Long> first = client.nextAsync("order");
        assertTrue(Thread.interrupted());
        assertTrue(first.get() < client.next("order"));
    }

    @Test
    void aCancelledFutureEndsItsCall() {
        try (IdClient other = IdClient.connect(options().withPrefix("other"))) {
            CompletableFuture<Long> waits = other.nextAsync("order");
            waits.cancel(false);
            assertTrue(waits.isCancelled());
        }
    }

    @Test
    void aCheckpointDropsTheBufferAndTheConnectionAndTheCopyAsksAnew() throws Exception {
        List<Connection> connections = new ArrayList<>();
        NatsIdClient copied = NatsIdClient.connect(options().withNats(nats -> patient(nats)
                .connectionListener((connection, event) -> {
                    synchronized (connections) {
                        connections.add(connection);
                    }
                })), Environment.real());
        Resource hook = (Resource) copied.checkpointHook();
        try (Prefetcher ids = (Prefetcher) copied.prefetch("order")) {
            Set<Long> taken = ConcurrentHashMap.newKeySet();
            for (int copy = 0; copy < 2; copy++) {
                for (int i = 0; i < 2000; i++) {
                    assertTrue(taken.add(ids.next()));
                }
                Installation.await("some are buffered", () -> ids.figures().buffered() > 0);
                hook.beforeCheckpoint(Core.getGlobalContext());
                assertEquals(0, ids.figures().buffered());
                synchronized (connections) {
                    connections.forEach(each -> assertEquals(Connection.Status.CLOSED, each.getStatus()));
                }
                assertEquals(Reason.DISCONNECTED, assertThrows(CallTimeoutException.class,
                        () -> copied.withTimeout(Duration.ofMillis(10)).next("order")).reason());
                CompletableFuture<Long> waits = copied.nextAsync("order");
                hook.afterRestore(Core.getGlobalContext());
                assertTrue(taken.add(waits.get()));
                assertTrue(taken.add(ids.next()));
            }
        } finally {
            copied.close();
        }
    }

    @Test
    void anOwnConnectionThatEndsIsMadeAgainThoughThatFailsAtFirst() throws Exception {
        BlockingQueue<Connection> made = new LinkedBlockingQueue<>();
        AtomicInteger attempts = new AtomicInteger();
        try (IdClient owns = IdClient.connect(IdClientOptions.DEFAULTS.withServers(installation.url())
                .withTimeout(Installation.PATIENCE).withNats(nats -> {
                    if (attempts.incrementAndGet() == 2) {
                        throw new IllegalArgumentException("no such key store");
                    }
                    return nats.connectionListener((connection, event) -> made.add(connection));
                }))) {
            long one = owns.next("order");
            made.take().close(); // as jnats does when two logins in a row are refused
            assertTrue(owns.next("order") > one);
            assertEquals(3, attempts.get());
        }
    }

    @Test
    void aCheckpointIsRefusedWhileTheCallersConnectionIsOpen() throws Exception {
        Connection connection = connection();
        try (IdClient borrows = IdClient.of(connection, IdClientOptions.DEFAULTS.withTimeout(Installation.PATIENCE))) {
            long one = borrows.next("order");
            Prefetcher ids =
                    (Prefetcher) borrows.prefetch("order", new PrefetchOptions(Duration.ofSeconds(10), 1000, 1000));
            while (ids.figures().buffered() == 0) {
                ids.next();
            }
            assertThrows(IllegalStateException.class, borrows::suspend);
            assertEquals(0, ids.figures().buffered(), "a copy of the process would use them, too");
            assertTrue(borrows.next("order") > one);
            connection.close();
            borrows.suspend();
            borrows.resume();
            assertThrows(ConnectionEndedException.class, () -> borrows.next("order"));
        }
    }
}
