package io.github.idworker.spring;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;

/**
 * Meters that cost a call nothing: {@code idworker.connected}, 1 or 0, and
 * {@code idworker.reconnects}.
 */
final class IdworkerMeters implements MeterBinder {
    private final IdworkerConnection connection;

    IdworkerMeters(IdworkerConnection connection) {
        this.connection = connection;
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        Gauge.builder("idworker.connected", connection, c -> c.state() == IdworkerConnection.State.UP ? 1 : 0)
                .description("Whether the client is connected to a NATS server")
                .register(registry);
        FunctionCounter.builder("idworker.reconnects", connection, IdworkerConnection::reconnects)
                .description("Times that the client's connection was lost and came back")
                .register(registry);
    }
}
