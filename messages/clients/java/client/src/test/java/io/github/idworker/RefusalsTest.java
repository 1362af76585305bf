package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.nats.client.Connection;
import java.lang.reflect.Proxy;
import org.junit.jupiter.api.Test;

/** A refusal of the server names the subject, and that of an inbox the setting to change. */
class RefusalsTest {
    private static final String PUBLISH = "Permissions Violation for Publish to \"ids.segment.order\"";
    private static final String SUBSCRIBE = "Permissions Violation for Subscription to \"_INBOX.x.*\"";

    /** Nothing is asked of it. */
    private static final Connection ANY = (Connection) Proxy.newProxyInstance(RefusalsTest.class.getClassLoader(),
            new Class<?>[] {Connection.class}, (proxy, method, arguments) -> null);

    private final Refusals refusals = new Refusals();

    @Test
    void aRefusedInboxNamesTheSettings() {
        refusals.errorOccurred(ANY, SUBSCRIBE);
        String message = refusals.ofSubscription("_INBOX.x.*").in("ids.segment.order", 1).message();
        assertTrue(message.startsWith("request ids.segment.order: " + SUBSCRIBE + ": "), message);
        assertTrue(message.contains("withInboxPrefix"), message);
        assertTrue(message.contains("idworker.inbox-prefix"), message);
        assertTrue(message.contains("idworker.inbox_prefix"), message);
        assertNull(refusals.ofSubscription("_INBOX.y.*"));
    }

    @Test
    void aRefusedRequestDoesNot() {
        long before = System.nanoTime();
        refusals.errorOccurred(ANY, PUBLISH);
        assertEquals(PUBLISH, refusals.ofPublish("ids.segment.order", before).text());
    }
}
