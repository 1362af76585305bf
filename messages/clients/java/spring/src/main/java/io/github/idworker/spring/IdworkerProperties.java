package io.github.idworker.spring;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties {@code idworker.*}. Immutable.
 *
 * <p>An unknown name in a file or on the command line ends the start. Spring Boot
 * does not check the names of environment variables and of Java's system
 * properties.
 *
 * @param servers URLs of NATS servers (default: the Connection bean, else nats://127.0.0.1:4222).
 * @param user User name for the servers.
 * @param password Password of the user.
 * @param credentials File with JWT and seed, as nsc writes it, in place of user and password.
 * @param ssl TLS.
 * @param prefix Prefix of the installation's subjects.
 * @param inboxPrefix Prefix of reply subjects that the user may subscribe to (default: _INBOX).
 * @param failFast Whether the start fails if no server accepts the client; else the client keeps trying to connect.
 * @param timeout Longest time of a call of IdClient, more than 0.
 * @param rowWait Longest wait for the ID of a row, more than 0; a transaction may be open.
 * @param prefetch Buffers of rows' IDs, one for each tag.
 * @param jackson JSON.
 */
@ConfigurationProperties(prefix = "idworker", ignoreUnknownFields = false)
public record IdworkerProperties(
        @DefaultValue List<String> servers,
        @Nullable String user,
        @Nullable String password,
        @Nullable Path credentials,
        @DefaultValue Ssl ssl,
        @DefaultValue("ids") String prefix,
        @Nullable String inboxPrefix,
        @DefaultValue("false") boolean failFast,
        @DefaultValue("5s") Duration timeout,
        @DefaultValue("2s") Duration rowWait,
        @DefaultValue Prefetch prefetch,
        @DefaultValue Jackson jackson) {

    /**
     * TLS.
     *
     * @param bundle SSL bundle of the connection (default: none; a URL tls://… uses Java's certificates).
     */
    public record Ssl(@Nullable String bundle) {}

    /**
     * Buffers of rows' IDs, one for each tag.
     *
     * @param runway How long a buffer lasts at the present rate, 1 ms to 1 h; more than 10 s acts as 10 s.
     * @param limit Most IDs of a tag that are buffered and in flight, 1 to 10^9.
     * @param maxBatch Most IDs of a request, 1 to 10^9.
     * @param except Tags without a buffer: each row costs a request, as each row of a strict tag does.
     */
    public record Prefetch(
            @DefaultValue("1s") Duration runway,
            @DefaultValue("1000000") long limit,
            @DefaultValue("10000") long maxBatch,
            @DefaultValue Set<String> except) {}

    /**
     * JSON.
     *
     * @param idsAsStrings Write every long, Long and long[] as strings, not only IDs: JavaScript rounds numbers above 2^53.
     */
    public record Jackson(@DefaultValue("false") boolean idsAsStrings) {}

    /** Returns all but the password and the servers: a URL may contain a password, too. */
    @Override
    public String toString() {
        return "IdworkerProperties[user=" + user + ", credentials=" + credentials
                + ", ssl=" + ssl + ", prefix=" + prefix + ", inboxPrefix=" + inboxPrefix + ", failFast=" + failFast + ", timeout=" + timeout
                + ", rowWait=" + rowWait + ", prefetch=" + prefetch + ", jackson=" + jackson + "]";
    }
}
