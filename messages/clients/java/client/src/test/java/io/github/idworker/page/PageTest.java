package io.github.idworker.page;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.IdClient;
import io.github.idworker.IdClientOptions;
import io.github.idworker.IdSequence;
import io.github.idworker.NumberFormat;
import io.github.idworker.OpaqueIds;
import io.github.idworker.PrefetchOptions;
import io.github.idworker.testkit.Installation;
import io.nats.client.Connection;
import io.nats.client.Nats;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.Base64;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The code of docs/java.md, in a package outside the client's, as a reader's is. */
class PageTest {
    @Test
    void clientOfThePage() throws Exception {
        try (Installation installation = Installation.start()) {
            installation.createTag("order");
            String url = installation.url();
            Set<Long> ids = new HashSet<>();

            IdClient client = IdClient.connect(IdClientOptions.DEFAULTS.withServers(url));
            long id = client.next("order");
            for (long each : client.next("order", 100)) {
                ids.add(each);
            }
            CompletableFuture<Long> later = client.nextAsync("order");
            long snowflake = client.snowflake();

            IdSequence orders = client.prefetch("order");
            long buffered = orders.next();

            ids.addAll(Set.of(id, later.get(), snowflake, buffered));
            assertEquals(104, ids.size());
            client.close();
        }
    }

    @Test
    void optionsOfThePage() throws Exception {
        try (Installation installation = Installation.start()) {
            installation.createTag("order");
            String url = installation.url();
            String password = "any, as this server asks for none";

            IdClientOptions options = IdClientOptions.DEFAULTS
                    .withServers(url)
                    .withUser("caller", password)
                    .withInboxPrefix("_INBOX_caller.any")
                    .withTimeout(Duration.ofSeconds(10));

            try (IdClient client = IdClient.connect(options)) {
                IdSequence orders = client.prefetch("order", new PrefetchOptions(Duration.ofSeconds(2), 100_000, 10_000));

                assertTrue(orders.next() > 0);
            }
        }
    }

    @Test
    void testOfThePage() {
        IdClient client = IdClient.inMemory();
        assertEquals(1, client.next("order"));
        assertEquals(2, client.prefetch("order").next());
    }

    /** Stands in for OpenTelemetry's, as do the two below: the client does not depend on it. */
    private record Span(SpanContext getSpanContext) {
        static Span current() {
            return new Span(new SpanContext(true, "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331",
                    new TraceFlags("01")));
        }
    }

    private record SpanContext(boolean isValid, String getTraceId, String getSpanId, TraceFlags getTraceFlags) {}

    private record TraceFlags(String asHex) {}

    @Test
    void tracesOfThePage() throws Exception {
        BlockingQueue<String> traces = new LinkedBlockingQueue<>();
        try (Installation installation = Installation.start()) {
            installation.createTag("order");
            Connection nats = Nats.connect(installation.url());
            nats.createDispatcher(request -> traces.add(request.getHeaders().getFirst("traceparent")))
                    .subscribe("ids.segment.order");
            nats.flush(Installation.PATIENCE);

            IdClientOptions options = IdClientOptions.DEFAULTS.withTraceparent(() -> {
                SpanContext span = Span.current().getSpanContext();
                return !span.isValid() ? null
                        : String.join("-", "00", span.getTraceId(), span.getSpanId(), span.getTraceFlags().asHex());
            });

            IdClient.of(nats, options).next("order");
            assertEquals("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", traces.take());
            nats.close();
        }
    }

    @Test
    void numbersOfThePage(@TempDir Path folder) throws Exception {
        Path keys = Files.writeString(folder.resolve("keys"), "1 " + Base64.getEncoder().encodeToString(new byte[32]));
        try (Installation installation = Installation.start()) {
            installation.createTag("ticket.*", "--template", "--dated", "yyyyMMdd", "--order", "strict");
            IdClient client = IdClient.connect(IdClientOptions.DEFAULTS.withServers(installation.url()));
            long id = 1234;

            OpaqueIds.Texts orders = OpaqueIds.load(keys).texts("order", "ord");
            String text = orders.seal(id);

            assertEquals(id, orders.open(text));

            NumberFormat tickets = NumberFormat.of("ticket", "TCK-{yyyyMMdd}-{seq:6}", ZoneId.of("Asia/Shanghai"));
            String number = tickets.next(client, Instant.now());

            assertEquals(1, tickets.parse(number).seq());
            client.close();
        }
    }
}
