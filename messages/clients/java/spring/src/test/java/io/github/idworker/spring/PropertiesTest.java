package io.github.idworker.spring;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.source.MapConfigurationPropertySource;

class PropertiesTest {
    /** A log or a debugger may show them. */
    @Test
    void theirTextHasNoPassword() {
        Map<String, String> values = Map.of("idworker.servers", "nats://ids:S3/cr3t@127.0.0.1:1,nats://ids:cr3tS3",
                "idworker.user", "caller", "idworker.password", "cr3t");
        String text = new Binder(new MapConfigurationPropertySource(values))
                .bind("idworker", IdworkerProperties.class).get().toString();
        assertTrue(text.contains("user=caller"), text);
        assertFalse(text.contains("cr3t"), text);
    }
}
