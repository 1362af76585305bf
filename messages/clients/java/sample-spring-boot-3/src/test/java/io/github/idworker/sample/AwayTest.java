package io.github.idworker.sample;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.CallTimeoutException;
import io.github.idworker.Reason;
import io.github.idworker.spring.IdworkerConnection;
import io.github.idworker.spring.IdworkerConnection.State;
import io.github.idworker.testkit.Installation;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;

/** The shop starts while NATS is away, stays in service, and saves as soon as NATS is there. */
@ExtendWith(OutputCaptureExtension.class)
class AwayTest {
    @Test
    void theShopStartsWithoutNatsAndSavesAsItComes(CapturedOutput output) throws Exception {
        try (Installation installation = Installation.start()) {
            installation.createTag("order");
            installation.stop();
            try (ConfigurableApplicationContext shop = new SpringApplicationBuilder(ShopApplication.class)
                    .run("--server.port=0", "--idworker.servers=" + installation.url(), "--idworker.row-wait=200ms",
                            "--spring.datasource.url=jdbc:h2:mem:away",
                            "--management.endpoint.health.probes.enabled=true")) {
                IdworkerConnection connection = shop.getBean(IdworkerConnection.class);
                CustomerOrders orders = shop.getBean(CustomerOrders.class);
                Installation.await("disconnected", () -> connection.state() == State.DISCONNECTED);
                inService(shop, "DISCONNECTED");
                CallTimeoutException away =
                        assertThrows(CallTimeoutException.class, () -> orders.save(new CustomerOrder("Ada")));
                assertEquals(Reason.DISCONNECTED, away.reason());
                assertTrue(away.getMessage().contains("connect to " + installation.url()), away.getMessage());

                installation.restart();
                Installation.await("a saved order", () -> isSaved(orders));
                Installation.await("connected", () -> connection.state() == State.UP);
                inService(shop, "UP");
                assertTrue(output.getAll().contains("WARN"), output.getAll());
                assertTrue(output.getAll().contains("ID requests fail: subject=ids.segment.order"), output.getAll());
                Installation.await("a second without a failure", () -> isSaved(orders)
                        && output.getAll().contains("ID requests succeed again: subject=ids.segment.order"));

                installation.stop();
                Installation.await("disconnected", () -> connection.state() == State.DISCONNECTED);
                inService(shop, "DISCONNECTED");
            }
        }
    }

    /** The properties of docs/java.md. */
    @Test
    void anApplicationMayLeaveServiceWithoutNats() throws Exception {
        try (ConfigurableApplicationContext shop = new SpringApplicationBuilder(ShopApplication.class)
                .run("--server.port=0", "--idworker.servers=nats://127.0.0.1:1",
                        "--spring.datasource.url=jdbc:h2:mem:strict",
                        "--management.endpoint.health.status.order=down,out-of-service,disconnected,up,unknown",
                        "--management.endpoint.health.status.http-mapping.disconnected=503")) {
            IdworkerConnection connection = shop.getBean(IdworkerConnection.class);
            Installation.await("disconnected", () -> connection.state() == State.DISCONNECTED);
            assertEquals(503, get(shop, "/actuator/health").statusCode());
        }
    }

    private static boolean isSaved(CustomerOrders orders) {
        try {
            return orders.save(new CustomerOrder("Ada")).getId() > 0;
        } catch (CallTimeoutException e) {
            return false;
        }
    }

    /** The overall health and readiness stay up, and the health of idworker has this status. */
    private static void inService(ConfigurableApplicationContext shop, String status) throws Exception {
        HttpResponse<String> health = get(shop, "/actuator/health");
        assertEquals(200, health.statusCode(), health.body());
        assertTrue(health.body().contains("\"idworker\":{\"status\":\"" + status + "\"")
                || health.body().matches("(?s).*\"idworker\":\\{\"details\":.*\"status\":\"" + status + "\".*"),
                health.body());
        HttpResponse<String> readiness = get(shop, "/actuator/health/readiness");
        assertEquals(200, readiness.statusCode(), readiness.body());
    }

    private static HttpResponse<String> get(ConfigurableApplicationContext shop, String path) throws Exception {
        URI url = URI.create("http://127.0.0.1:" + shop.getEnvironment().getProperty("local.server.port") + path);
        return HttpClient.newHttpClient().send(HttpRequest.newBuilder(url).build(), BodyHandlers.ofString());
    }
}
