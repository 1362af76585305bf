package io.github.idworker.hibernate;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.idworker.CallTimeoutException;
import io.github.idworker.ConnectFailedException;
import io.github.idworker.Reason;
import io.github.idworker.RowIds;
import io.github.idworker.hibernate.Model.Event;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.hibernate.HibernateException;
import org.hibernate.SessionFactory;
import org.junit.jupiter.api.Test;

/** What the configuration gives is used, and only that; what is wrong in it is said in one sentence. */
class ConfigurationTest {
    private static long save(SessionFactory factory) {
        Event event = new Event("a");
        factory.inTransaction(session -> session.persist(event));
        return event.id;
    }

    @Test
    void factoriesWithTheirOwnClients() {
        FakeIds low = new FakeIds(1);
        FakeIds high = new FakeIds(1_000);
        try (SessionFactory first = Databases.open(Map.of(IdworkerSettings.CLIENT, low.client), Event.class)) {
            try (SessionFactory second = Databases.open(Map.of(IdworkerSettings.CLIENT, high.client), Event.class)) {
                assertEquals(List.of(1L, 1_000L), List.of(save(first), save(second)));
            }
            assertEquals(2, save(first));
        }
    }

    @Test
    void factoriesOfOneClient() {
        FakeIds ids = new FakeIds(1);
        try (SessionFactory first = Databases.open(Map.of(IdworkerSettings.CLIENT, ids.client), Event.class)) {
            try (SessionFactory second = Databases.open(Map.of(IdworkerSettings.CLIENT, ids.client), Event.class)) {
                assertEquals(List.of(1L, 2L), List.of(save(first), save(second)));
            }
            assertEquals(3, save(first));
        }
    }

    /** The application closes what it made, and may use it after that. */
    @Test
    void rowIdsOfTheApplication() {
        RowIds ids = RowIds.of(new FakeIds(1).client);
        for (long id = 1; id <= 2; id++) {
            try (SessionFactory factory = Databases.open(Map.of(IdworkerSettings.ROW_IDS, ids), Event.class)) {
                assertEquals(id, save(factory));
            }
        }
        assertEquals(3, ids.snowflake());
    }

    /** A NATS server that only says hello; it ends when its first client closes the connection. */
    @Test
    void ownClientEndsWithTheFactory() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            FutureTask<Void> served = new FutureTask<>(() -> {
                try (Socket client = server.accept()) {
                    String hello = "INFO {\"server_id\":\"x\",\"max_payload\":1024}\r\n";
                    client.getOutputStream().write(hello.getBytes(US_ASCII));
                    BufferedReader lines =
                            new BufferedReader(new InputStreamReader(client.getInputStream(), US_ASCII));
                    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                        if (line.equals("PING")) {
                            client.getOutputStream().write("PONG\r\n".getBytes(US_ASCII));
                        }
                    }
                }
                return null;
            });
            new Thread(served).start();
            String url = "nats://127.0.0.1:" + server.getLocalPort();
            Databases.open(Map.of(IdworkerSettings.SERVERS, url, IdworkerSettings.FAIL_FAST, "true"), Event.class)
                    .close();
            served.get(2, TimeUnit.MINUTES);
        }
    }

    private static HibernateException refused(Map<String, Object> settings, Class<?> entity) {
        return assertThrows(HibernateException.class, () -> Databases.open(settings, entity));
    }

    private static void assertRefused(String message, Map<String, Object> settings) {
        assertEquals(message, refused(settings, Event.class).getMessage());
    }

    @Test
    void badSettings() {
        assertRefused("@IdworkerId has no client: set idworker.row_ids, idworker.client or idworker.servers"
                + " in Hibernate's configuration", Map.of());
        assertRefused("idworker.client is java.lang.String, but must be io.github.idworker.IdClient",
                Map.of(IdworkerSettings.CLIENT, "nats://127.0.0.1:4222"));
        assertRefused("Hibernate's configuration has the unknown key idworker.server; known are idworker.row_ids,"
                + " idworker.client, idworker.servers, idworker.user, idworker.password, idworker.credentials,"
                + " idworker.prefix, idworker.inbox_prefix, idworker.fail_fast", Map.of("idworker.server", "nats://127.0.0.1:4222"));
        assertRefused("idworker.user and idworker.password must be set together",
                Map.of(IdworkerSettings.SERVERS, "nats://127.0.0.1:4222", IdworkerSettings.USER, "ann"));
    }

    @Test
    void noServer() {
        Map<String, Object> nobody = Map.of(IdworkerSettings.SERVERS, "nats://127.0.0.1:1");
        try (SessionFactory factory = Databases.open(nobody, Event.class)) {
            assertEquals(Reason.DISCONNECTED,
                    assertThrows(CallTimeoutException.class, () -> save(factory)).reason());
        }
        HibernateException refused =
                refused(Map.of(IdworkerSettings.SERVERS, "nats://127.0.0.1:1", IdworkerSettings.FAIL_FAST, true),
                        Event.class);
        assertInstanceOf(ConnectFailedException.class, refused.getCause());
    }

    @Entity
    static class NoTag {
        @Id
        @IdworkerId
        Long id;
    }

    @Entity
    static class TagAndSnowflake {
        @Id
        @IdworkerId(value = "order", snowflake = true)
        Long id;
    }

    @Entity
    static class TagWithSpace {
        @Id
        @IdworkerId("my order")
        Long id;
    }

    @Entity
    static class IntegerId {
        @Id
        @IdworkerId("order")
        Integer id;
    }

    @Entity
    static class IntegerKeyed extends Model.Keyed<Integer> {}

    @Test
    void badAnnotations() {
        Map<String, Object> settings = Map.of(IdworkerSettings.CLIENT, new FakeIds(1).client);
        String here = ConfigurationTest.class.getName();
        assertEquals("@IdworkerId of " + here + "$NoTag.id: it needs a tag, or snowflake = true",
                refused(settings, NoTag.class).getMessage());
        assertEquals("@IdworkerId of " + here + "$TagAndSnowflake.id: it has a tag and snowflake = true,"
                + " but must have one of them", refused(settings, TagAndSnowflake.class).getMessage());
        assertEquals("@IdworkerId of " + here + "$TagWithSpace.id: malformed tag: ' ' at byte 2, allowed are"
                + " A-Z a-z 0-9 _ - and dots between tokens", refused(settings, TagWithSpace.class).getMessage());
        assertEquals("@IdworkerId of " + here + "$IntegerId.id: the attribute is java.lang.Integer,"
                + " but must be long or Long", refused(settings, IntegerId.class).getMessage());
        assertEquals("@IdworkerId of " + Model.Keyed.class.getName() + ".id: the attribute is java.lang.Integer,"
                + " but must be long or Long", refused(settings, IntegerKeyed.class).getMessage());
    }
}
