package io.github.idworker.sample;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.CallTimeoutException;
import io.github.idworker.IdClient;
import io.github.idworker.IdworkerException;
import io.github.idworker.NoSuchTagException;
import io.github.idworker.RowIds;
import io.github.idworker.spring.IdworkerConnection;
import io.github.idworker.spring.IdworkerTraceparent;
import io.github.idworker.testkit.Installation;
import io.nats.client.Connection;
import io.nats.client.Message;
import io.nats.client.Nats;
import jakarta.persistence.EntityManager;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.support.Checkpoint;
import org.springframework.transaction.support.TransactionTemplate;

/** The shop, against a real installation. All tests share one of each. */
@ExtendWith(OutputCaptureExtension.class)
class ShopTest {
    private static final int ROWS = 10_000;
    private static final int THREADS = 8;
    private static final int BATCH = 50;
    private static final String TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    private static Installation installation;
    private static Connection watcher;
    private static final Map<String, LongAdder> requests = new ConcurrentHashMap<>(); // by tag
    private static final Set<String> traced = ConcurrentHashMap.newKeySet(); // tags of requests that carry TRACE
    private static ConfigurableApplicationContext shop;

    @BeforeAll
    static void start() throws Exception {
        installation = Installation.start();
        installation.createTag("order");
        installation.createTag("invoice");
        installation.createTag("ledger", "--order", "strict");
        watcher = Nats.connect(installation.url());
        watcher.createDispatcher(ShopTest::count).subscribe("ids.segment.>");
        watcher.flush(Installation.PATIENCE);
        // A slow machine must neither need more requests nor miss a deadline.
        shop = new SpringApplicationBuilder(ShopApplication.class)
                .initializers(context -> context.getBeanFactory()
                        .registerSingleton("traceparent", (IdworkerTraceparent) () -> TRACE))
                .run("--server.port=0", "--idworker.servers=" + installation.url(), "--idworker.prefetch.runway=10s",
                        "--idworker.row-wait=2m", "--idworker.timeout=2m", "--idworker.inbox-prefix=shop.replies");
    }

    private static void count(Message request) {
        String tag = request.getSubject().substring("ids.segment.".length());
        String key = request.getReplyTo().startsWith("shop.replies.") ? tag : "with another inbox prefix";
        requests.computeIfAbsent(key, unused -> new LongAdder()).increment();
        if (request.hasHeaders() && TRACE.equals(request.getHeaders().getFirst("traceparent"))) {
            traced.add(tag);
        }
    }

    @AfterAll
    static void end() throws Exception {
        if (shop != null) {
            shop.close();
        }
        if (watcher != null) {
            watcher.close();
        }
        installation.close();
    }

    @Test
    void ordersSavedOneByOneSurviveAKilledWorker() throws Exception {
        CustomerOrders orders = shop.getBean(CustomerOrders.class);
        saved("order", () -> List.of(orders.save(new CustomerOrder("Ada")).getId()));
    }

    @Test
    void ordersSavedInBatchesSurviveAKilledWorker() throws Exception {
        CustomerOrders orders = shop.getBean(CustomerOrders.class);
        saved("order", () -> orders.saveAll(IntStream.range(0, BATCH).mapToObj(i -> new CustomerOrder("Ada")).toList())
                .stream().map(CustomerOrder::getId).toList());
    }

    @Test
    void invoicesSavedOneByOneSurviveAKilledWorker() throws Exception {
        InvoiceMapper invoices = shop.getBean(InvoiceMapper.class);
        saved("invoice", () -> {
            Invoice invoice = new Invoice("Ada");
            invoices.insert(invoice);
            return List.of(invoice.getId());
        });
    }

    @Test
    void invoicesSavedInBatchesSurviveAKilledWorker() throws Exception {
        InvoiceMapper invoices = shop.getBean(InvoiceMapper.class);
        saved("invoice", () -> {
            List<Invoice> batch = IntStream.range(0, BATCH).mapToObj(i -> new Invoice("Ada")).toList();
            invoices.insert(batch);
            return batch.stream().map(Invoice::getId).toList();
        });
    }

    /** Saves rows by several threads and kills a worker in between. The database refuses a second row of an ID. */
    private static void saved(String tag, Supplier<List<Long>> save) throws Exception {
        Process worker = installation.startWorker();
        long before = requests(tag);
        CountDownLatch half = new CountDownLatch(ROWS / 2);
        Set<Long> ids = ConcurrentHashMap.newKeySet();
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try {
            List<Future<Integer>> saves = IntStream.range(0, THREADS).mapToObj(thread -> threads.submit(() -> {
                int rows = 0;
                while (rows < ROWS / THREADS) {
                    List<Long> batch = save.get();
                    ids.addAll(batch);
                    rows += batch.size();
                    batch.forEach(id -> half.countDown());
                }
                return rows;
            })).toList();
            Installation.await("half of the rows, or the end of a thread",
                    () -> half.getCount() == 0 || saves.stream().anyMatch(Future::isDone));
            Installation.kill(worker);
            int rows = 0;
            for (Future<Integer> saved : saves) {
                rows += saved.get();
            }
            assertEquals(ROWS, rows);
            assertEquals(ROWS, ids.size());
        } finally {
            threads.shutdownNow();
        }
        long after = requests(tag);
        assertTrue(after > 0, "no request was seen"); // all of these IDs may have been buffered before
        assertTrue(after - before <= ROWS / 100, after - before + " requests");
    }

    private static long requests(String tag) throws Exception {
        watcher.flush(Installation.PATIENCE);
        LongAdder count = requests.get(tag);
        return count == null ? 0 : count.sum();
    }

    @Test
    void aCheckpointEndsTheConnectionAndDropsTheBuffer() throws Exception {
        CustomerOrders orders = shop.getBean(CustomerOrders.class);
        IdworkerConnection connection = shop.getBean(IdworkerConnection.class);
        orders.saveAll(IntStream.range(0, 1000).mapToObj(i -> new CustomerOrder("Ada")).toList());
        long buffered = shop.getBean(RowIds.class).next("order");
        Checkpoint.before(shop);
        assertEquals(IdworkerConnection.State.UNKNOWN, connection.state());
        assertEquals("CLOSED", connection.details().get("connection"));
        long before = requests("order");
        Checkpoint.after(shop);
        long id = orders.save(new CustomerOrder("Ada")).getId();
        assertTrue(requests("order") > before, "the first ID after a restore is requested");
        // Not necessarily above: another test kills a worker, and the IDs of two workers have no order.
        assertTrue(id != buffered + 1, id + " follows " + buffered);
        Installation.await("connected", () -> connection.state() == IdworkerConnection.State.UP);
    }

    @Test
    void idsHealthAndMetersOverHttp() throws Exception {
        String order = http(shop, "POST", "/orders?customer=Ada");
        assertTrue(order.matches(".*\"id\":\"[0-9]+\".*"), order);
        assertTrue(order.contains("\"cents\":0"), "only IDs are texts: " + order);
        Installation.await("connected",
                () -> shop.getBean(IdworkerConnection.class).state() == IdworkerConnection.State.UP);
        Matcher health = Pattern.compile("\"idworker\":\\{[^{]*\\{[^}]*}[^}]*}")
                .matcher(http(shop, "GET", "/actuator/health"));
        assertTrue(health.find());
        assertTrue(health.group().contains("\"status\":\"UP\""), health.group());
        assertTrue(health.group().contains("\"server\":\"" + installation.url() + "\""), health.group());
        String meter = http(shop, "GET", "/actuator/metrics/idworker.connected");
        assertTrue(meter.contains("\"value\":1.0"), meter);
        http(shop, "GET", "/actuator/metrics/idworker.reconnects");
    }

    @Test
    void aStrictTagCostsARequestARowAndTheLogSaysSoOnce(CapturedOutput output) throws Exception {
        int rows = 20;
        List<Long> ids = new ArrayList<>();
        for (int i = 0; i < rows; i++) {
            ids.add(stored(shop, new LedgerEntry()).id);
        }
        assertEquals(ids.stream().sorted().distinct().toList(), ids);
        assertTrue(requests("ledger") >= rows, requests("ledger") + " requests");
        assertEquals(1, output.getAll().lines().filter(line -> line.contains("ledger")).count(), output.getAll());
    }

    @Test
    void aRequestCarriesTheTraceOfTheBean() {
        shop.getBean(IdClient.class).next("order");
        Installation.await("a request with the trace", () -> traced.contains("order"));
    }

    @Test
    void anUnknownTagEndsTheSaveAndNamesTheTag() {
        NoSuchTagException failure = assertThrows(NoSuchTagException.class, () -> stored(shop, new Orphan()));
        assertFalse(failure.isRetryable());
        assertTrue(failure.getMessage().contains("orphan"), failure.getMessage());
    }

    /** No worker has this prefix, so each wait for an ID ends at its limit. */
    @Test
    void aSaveWithoutAWorkerEndsInARetryableException() throws Exception {
        long stored = shop.getBean(CustomerOrders.class).save(new CustomerOrder("Ada")).getId();
        Connection own = Nats.connect(installation.url());
        try (ConfigurableApplicationContext lonely = new SpringApplicationBuilder(ShopApplication.class)
                .initializers(context -> context.getBeanFactory().registerSingleton("nats", own))
                .run("--server.port=0", "--idworker.prefix=nobody", "--idworker.row-wait=200ms",
                        "--idworker.jackson.ids-as-strings=true")) {
            CustomerOrders orders = lonely.getBean(CustomerOrders.class);
            CallTimeoutException failure =
                    assertThrows(CallTimeoutException.class, () -> orders.save(new CustomerOrder("Ada")));
            assertTrue(failure.isRetryable());

            // MyBatis wraps every exception.
            Throwable wrapped = assertThrows(RuntimeException.class,
                    () -> lonely.getBean(InvoiceMapper.class).insert(new Invoice("Ada")));
            IdworkerException cause = Stream.iterate(wrapped, Objects::nonNull, Throwable::getCause)
                    .filter(IdworkerException.class::isInstance)
                    .map(IdworkerException.class::cast)
                    .findFirst().orElseThrow();
            assertTrue(cause.isRetryable());

            String order = http(lonely, "GET", "/orders/" + stored);
            assertTrue(order.contains("\"id\":\"" + stored + "\""), order);
            assertTrue(order.contains("\"cents\":\"0\""), "every long is a text: " + order);
        }
        assertEquals(Connection.Status.CONNECTED, own.getStatus(), "the application's connection is left alone");
        own.close();
    }

    private static <T> T stored(ConfigurableApplicationContext context, T entity) {
        context.getBean(TransactionTemplate.class).executeWithoutResult(
                transaction -> context.getBean(EntityManager.class).persist(entity));
        return entity;
    }

    private static String http(ConfigurableApplicationContext context, String method, String path) {
        URI url = URI.create("http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port") + path);
        HttpRequest request = HttpRequest.newBuilder(url).method(method, BodyPublishers.noBody()).build();
        try {
            HttpResponse<String> response = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
            assertEquals(200, response.statusCode(), response.body());
            return response.body();
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
