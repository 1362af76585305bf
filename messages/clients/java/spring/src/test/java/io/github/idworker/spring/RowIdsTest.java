package io.github.idworker.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.IdClient;
import io.github.idworker.PrefetchOptions;
import io.github.idworker.RowIds;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** The properties of rows' IDs reach the client. */
class RowIdsTest {
    private final FakeClient client = new FakeClient(1);
    private final ApplicationContextRunner application = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(IdworkerAutoConfiguration.class))
            .withBean(IdClient.class, () -> client);

    @Test
    void propertiesReachTheBuffers() {
        application
                .withPropertyValues("idworker.row-wait=300ms", "idworker.prefetch.runway=3s",
                        "idworker.prefetch.limit=70", "idworker.prefetch.max-batch=7",
                        "idworker.prefetch.except=order_line,shop.order")
                .run(context -> {
                    RowIds ids = context.getBean(RowIds.class);
                    ids.next("order");
                    assertEquals(new PrefetchOptions(Duration.ofSeconds(3), 70, 7), client.options);
                    assertEquals(Duration.ofMillis(300), client.timeout);
                    ids.next("order_line");
                    ids.next("shop.order");
                    assertEquals(List.of("prefetch order", "order", "order_line", "shop.order"), client.events);
                    assertTrue(client.timeout.compareTo(Duration.ofMillis(300)) <= 0, client.timeout.toString());
                });
    }

    @Test
    void defaultsAreTheClients() {
        application.run(context -> {
            context.getBean(RowIds.class).next("order");
            assertEquals(PrefetchOptions.DEFAULTS, client.options);
            assertEquals(RowIds.DEFAULT_WAIT, client.timeout);
        });
    }
}
