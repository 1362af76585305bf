package io.github.idworker.spring;

import io.nats.client.Connection;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What is known of the client's connection without a request, for health and
 * meters. A worker is not asked: an ID would be used up at each probe, and all
 * instances of an application would be unhealthy at once while no worker runs,
 * though their buffers still have IDs.
 *
 * <p>Thread-safe.
 */
public final class IdworkerConnection {
    /** What health reports. */
    public enum State {
        /** The connection works. */
        UP,
        /** The connection is lost, or the application closed its own. */
        DOWN,
        /** There is none, as after a checkpoint, until the next call; or the application made the client. */
        UNKNOWN
    }

    private final @Nullable Connection given;
    private volatile @Nullable Connection present;

    IdworkerConnection(@Nullable Connection given) {
        this.given = given;
        this.present = given;
    }

    /** The bean of the application that the client uses. */
    @Nullable Connection given() {
        return given;
    }

    /** Called at each event of a connection: the client may make several, one after another. */
    void use(Connection connection) {
        present = connection;
    }

    /** Returns the state of the connection. */
    public State state() {
        Connection connection = present;
        if (connection == null) {
            return State.UNKNOWN;
        }
        return switch (connection.getStatus()) {
            case CONNECTED -> State.UP;
            case CLOSED -> given == null ? State.UNKNOWN : State.DOWN;
            default -> State.DOWN;
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
