package io.github.idworker;

import io.nats.client.Options;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Options of an {@link IdClient}. Immutable; each {@code with…} returns a changed
 * copy, and refuses what is not allowed.
 */
public final class IdClientOptions {
    /** The servers of {@code nats://127.0.0.1:4222}, prefix {@code ids}, calls of 5 s. */
    public static final IdClientOptions DEFAULTS = new IdClientOptions();

    private IdClientOptions() {}

    /** URLs of NATS servers; user and password may be part of them. */
    public IdClientOptions withServers(String... urls) {
        throw new UnsupportedOperationException();
    }

    /** The login, if the servers ask for one. */
    public IdClientOptions withUser(String user, String password) {
        throw new UnsupportedOperationException();
    }

    /** The file with JWT and seed, as {@code nsc} writes it. */
    public IdClientOptions withCredentials(Path file) {
        throw new UnsupportedOperationException();
    }

    /**
     * The prefix of the installation's subjects, {@code ids} by default.
     *
     * @throws BadPrefixException if it is none
     */
    public IdClientOptions withPrefix(String prefix) {
        throw new UnsupportedOperationException();
    }

    /** The prefix of reply subjects that the user may subscribe to, {@code _INBOX} by default. */
    public IdClientOptions withInboxPrefix(String prefix) {
        throw new UnsupportedOperationException();
    }

    /**
     * The longest time of a call, 5 s by default.
     *
     * @param timeout more than 0
     */
    public IdClientOptions withTimeout(Duration timeout) {
        throw new UnsupportedOperationException();
    }

    /** Sets more options of the connection, such as TLS. It runs at each new connection. */
    public IdClientOptions withNats(UnaryOperator<Options.Builder> change) {
        throw new UnsupportedOperationException();
    }
}
