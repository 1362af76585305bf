package io.github.idworker.hibernate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.CallTimeoutException;
import io.github.idworker.IdClient;
import io.github.idworker.IdClientOptions;
import io.github.idworker.IdworkerException;
import io.github.idworker.NoSuchTagException;
import io.github.idworker.PrefetchOptions;
import io.github.idworker.RowIds;
import io.github.idworker.hibernate.Model.Customer;
import io.github.idworker.hibernate.Model.Event;
import io.github.idworker.hibernate.Model.Order;
import io.github.idworker.hibernate.Model.Ticket;
import io.github.idworker.testkit.Installation;
import io.nats.client.Connection;
import io.nats.client.Dispatcher;
import io.nats.client.Nats;
import jakarta.persistence.EntityManager;
import jakarta.persistence.EntityManagerFactory;
import jakarta.persistence.Persistence;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.hibernate.SessionFactory;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Rows of a real installation: few requests, no failed save when a worker dies, and errors as they came. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class InstallationTest {
    private Installation installation;

    @BeforeAll
    void start() {
        installation = Installation.start();
    }

    @AfterAll
    void stop() {
        installation.close();
    }

    /** Counts the calls that pass through the server: all tries of a call have one reply subject. */
    private final class Calls implements AutoCloseable {
        private final Set<String> seen = ConcurrentHashMap.newKeySet();
        private final Semaphore marks = new Semaphore(0);
        private final Connection connection = Nats.connect(installation.url());
        private final String mark = connection.createInbox();

        Calls(String subject) throws Exception {
            Dispatcher dispatcher = connection.createDispatcher(message -> {
                if (message.getSubject().equals(mark)) {
                    marks.release();
                } else {
                    seen.add(message.getReplyTo());
                }
            });
            dispatcher.subscribe(subject).subscribe(mark);
            connection.flush(Installation.PATIENCE);
        }

        /** The mark comes after all that the server had before it. */
        int count() throws Exception {
            connection.publish(mark, new byte[0]);
            assertTrue(marks.tryAcquire(Installation.PATIENCE.toSeconds(), TimeUnit.SECONDS));
            return seen.size();
        }

        @Override
        public void close() {
            try {
                connection.close();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private IdClient connect() {
        return IdClient.connect(IdClientOptions.DEFAULTS.withServers(installation.url()));
    }

    /** The wait is long and the buffer lasts ten seconds, so that neither depends on how fast the machine is. */
    private static RowIds patient(IdClient client) {
        return RowIds.of(client, Installation.PATIENCE,
                new PrefetchOptions(Duration.ofSeconds(10), 1_000_000, 10_000), Set.of());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 50})
    void tenThousandRowsWhileAWorkerDies(int batch) throws Exception {
        int threads = 8;
        int transactions = 25;
        int rows = 50;
        installation.createTag("order", "--if-missing");
        Process second = installation.startWorker();
        AtomicInteger saved = new AtomicInteger();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try (Calls calls = new Calls("ids.segment.order");
                IdClient client = connect();
                RowIds ids = patient(client);
                SessionFactory factory = Databases.open(
                        Map.of(IdworkerSettings.ROW_IDS, ids, "hibernate.jdbc.batch_size", "" + batch),
                        Order.class)) {
            List<Future<?>> work = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                String name = "t" + thread + "-";
                work.add(pool.submit(() -> {
                    for (int transaction = 0; transaction < transactions; transaction++) {
                        factory.inTransaction(session -> {
                            for (int row = 0; row < rows; row++) {
                                session.persist(new Order(name + saved.incrementAndGet()));
                            }
                        });
                    }
                }));
            }
            int all = threads * transactions * rows;
            Installation.await("half of the rows",
                    () -> saved.get() > all / 2 || work.stream().allMatch(Future::isDone));
            Installation.kill(second);
            for (Future<?> future : work) {
                future.get();
            }
            long stored = factory.fromSession(session ->
                    session.createSelectionQuery("select count(distinct id) from Order", Long.class)
                            .getSingleResult());
            assertEquals(all, stored);
            int sent = calls.count();
            assertTrue(sent <= all / 100, () -> sent + " calls for " + all + " rows");
        } finally {
            pool.shutdownNow();
        }
    }

    @Test
    void strictTagCostsARequestARow() throws Exception {
        installation.createTag("ticket", "--order", "strict");
        List<String> lines = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord line) {
                if (line.getMessage().contains("strict")) {
                    lines.add(line.getMessage());
                }
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger log = Logger.getLogger("io.github.idworker");
        log.addHandler(handler);
        log.setUseParentHandlers(false);
        try (Calls calls = new Calls("ids.segment.ticket");
                IdClient client = connect();
                RowIds ids = patient(client);
                SessionFactory factory = Databases.open(Map.of(IdworkerSettings.ROW_IDS, ids), Ticket.class)) {
            int rows = 20;
            List<Long> given = new ArrayList<>();
            factory.inTransaction(session -> {
                for (int row = 0; row < rows; row++) {
                    Ticket ticket = new Ticket();
                    session.persist(ticket);
                    given.add(ticket.id);
                }
            });
            assertEquals(given.stream().sorted().distinct().toList(), given);
            assertTrue(calls.count() >= rows);
            assertEquals(1, lines.size(), lines::toString);
        } finally {
            log.setUseParentHandlers(true);
            log.removeHandler(handler);
        }
    }

    /** A user's retry asks isRetryable, so the exception must not be wrapped. */
    @Test
    void errorsPassThroughHibernate() {
        try (IdClient client = IdClient.connect(
                        IdClientOptions.DEFAULTS.withServers(installation.url()).withPrefix("elsewhere"));
                RowIds ids = RowIds.of(client, Duration.ofMillis(200), PrefetchOptions.DEFAULTS, Set.of());
                SessionFactory factory = Databases.open(Map.of(IdworkerSettings.ROW_IDS, ids), Event.class)) {
            assertRetryable(() -> factory.inTransaction(session -> session.persist(new Event("a"))));
            assertRetryable(() -> factory.inTransaction(session -> session.merge(new Event("a"))));
            assertRetryable(() -> factory.inStatelessTransaction(session -> session.insert(new Event("a"))));
            assertRetryable(() -> factory.inTransaction(session ->
                    session.createMutationQuery("insert into Event (name) values ('a')").executeUpdate()));
        }
    }

    private static void assertRetryable(Runnable save) {
        assertTrue(assertThrows(CallTimeoutException.class, save::run).isRetryable());
    }

    /** As an application without code for idworker has it: all is in the properties of the persistence unit. */
    @Test
    void jakartaPersistence() {
        installation.createTag("order", "--if-missing");
        Map<String, Object> settings = new HashMap<>(Databases.settings());
        settings.put(IdworkerSettings.SERVERS, installation.url());
        settings.put(IdworkerSettings.PREFIX, "ids");
        try (EntityManagerFactory factory = Persistence.createEntityManagerFactory("test", settings)) {
            Order order = new Order("a");
            Installation.await("a row", () -> save(factory, order));
            assertTrue(order.id > 0);
            Customer customer = new Customer();
            assertThrows(NoSuchTagException.class,
                    () -> Installation.await("an unknown tag", () -> save(factory, customer)));
        }
    }

    /** Returns whether it succeeded; false means that a retry may. */
    private static boolean save(EntityManagerFactory factory, Object entity) {
        try (EntityManager manager = factory.createEntityManager()) {
            manager.getTransaction().begin();
            try {
                manager.persist(entity);
                manager.getTransaction().commit();
                return true;
            } catch (IdworkerException e) {
                assertTrue(manager.getTransaction().getRollbackOnly());
                manager.getTransaction().rollback();
                if (e.isRetryable()) {
                    return false;
                }
                throw e;
            }
        }
    }
}
