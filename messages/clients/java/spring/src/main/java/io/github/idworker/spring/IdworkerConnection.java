package io.github.idworker.spring;

import io.nats.client.Connection;
import io.nats.client.ConnectionListener.Events;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What is known of the client's connection without a request, for health and
 * meters. A worker is not asked: an ID would be used up at each probe, and all
 * instances of an application would be unhealthy at once while no worker runs,
 * though their buffers still have IDs. For the same reason a lost connection does
 * not make the application unhealthy: it would take all instances out of service,
 * with all that needs no ID.
 *
 * <p>Thread-safe.
 */
public final class IdworkerConnection {
    /** What health reports. */
    public enum State {
        /** The connection works. */
        UP,
        /**
         * There is no connection yet, it is lost, or the application closed its own. To
         * Spring Boot it is a status that does not count: the overall health stays up.
         * An application may give it a place in {@code
         * management.endpoint.health.status.order}.
         */
        DISCONNECTED,
        /** There is none, as after a checkpoint, until the next call; or the application made the client. */
        UNKNOWN
    }

    private final @Nullable Connection given;
    private volatile @Nullable Connection present;
    private volatile boolean connecting;

    IdworkerConnection(@Nullable Connection given) {
        this.given = given;
        this.present = given;
    }

    /** The bean of the application that the client uses. */
    @Nullable Connection given() {
        return given;
    }

    /** Called before each attempt to connect: the client may make several connections, one after another. */
    void connecting() {
        connecting = true;
    }

    /** Called at each event of a connection. An attempt that fails has none. */
    void use(Connection connection, Events event) {
        if (event == Events.CONNECTED) {
            present = connection;
            connecting = false;
        }
    }

    /** Returns the state of the connection. */
    public State state() {
        Connection connection = present;
        if (connecting) {
            return State.DISCONNECTED;
        }
        if (connection == null) {
            return State.UNKNOWN;
        }
        return switch (connection.getStatus()) {
            case CONNECTED -> State.UP;
            case CLOSED -> given == null ? State.UNKNOWN : State.DISCONNECTED;
            default -> State.DISCONNECTED;
        };
    }

    /**
     * Returns {@code connection}, the status by jnats' name, and {@code server}, a URL
     * without a login. What is unknown is missing.
     */
    public Map<String, Object> details() {
        Map<String, Object> details = new LinkedHashMap<>();
        Connection connection = present;
        if (connection != null) {
            details.put("connection", connection.getStatus().name());
            String url = connection.getConnectedUrl();
            if (url != null) {
                details.put("server", url.replaceFirst("//.*@", "//"));
            }
        }
        return details;
    }

    /** Returns how often the present connection was lost and came back. */
    long reconnects() {
        Connection connection = present;
        return connection == null ? 0 : connection.getStatistics().getReconnects();
    }
}
