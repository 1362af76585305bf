package io.github.idworker;

import io.nats.client.AuthenticationException;
import io.nats.client.Connection;
import io.nats.client.Nats;
import io.nats.client.Options;
import io.nats.client.impl.NatsServerPool;
import io.nats.client.support.NatsUri;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Options of an {@link IdClient}. Immutable; each {@code with…} returns a changed
 * copy, and refuses what is not allowed.
 */
public final class IdClientOptions {
    /** The server of {@code nats://127.0.0.1:4222}, prefix {@code ids}, calls of 5 s. */
    public static final IdClientOptions DEFAULTS = new IdClientOptions(List.of("nats://127.0.0.1:4222"), null, null,
            null, "ids", "_INBOX", Duration.ofSeconds(5), () -> null, UnaryOperator.identity());

    /** Short compared with a call, which then outlives a restart of the server. */
    private static final Duration RECONNECT_PAUSE = Duration.ofMillis(250);

    /** An application that starts may leave little time to this thread. */
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(5);

    private static final int MAX_PORT = 65535;

    private static final String ALLOWED_URLS =
            "allowed are URLs such as nats://127.0.0.1:4222 or nats://user:password@127.0.0.1:4222";

    /** What java.net.URI refuses in a login, or reads as its end. */
    private static final Pattern NOT_IN_LOGIN =
            Pattern.compile("[\\x00-\\x20\\x7f/?#@\\[\\]\"<>\\\\^`{|}]|%(?![0-9A-Fa-f]{2})");

    private final List<String> servers;
    private final @Nullable String user;
    private final @Nullable String password;
    private final @Nullable Path credentials;
    private final String prefix;
    private final String inboxPrefix;
    private final Duration timeout;
    private final Supplier<@Nullable String> traceparent;
    private final UnaryOperator<Options.Builder> change;

    private IdClientOptions(List<String> servers, @Nullable String user, @Nullable String password,
            @Nullable Path credentials, String prefix, String inboxPrefix, Duration timeout,
            Supplier<@Nullable String> traceparent, UnaryOperator<Options.Builder> change) {
        this.servers = servers;
        this.user = user;
        this.password = password;
        this.credentials = credentials;
        this.prefix = prefix;
        this.inboxPrefix = inboxPrefix;
        this.timeout = timeout;
        this.traceparent = traceparent;
        this.change = change;
    }

    /**
     * Sets the servers.
     *
     * @param urls of NATS servers; user and password may be part of them, with
     *     characters such as {@code /} percent-encoded ({@code %2F})
     * @return changed options
     * @throws BadConfigException if there is none, or one is empty
     */
    public IdClientOptions withServers(String... urls) {
        List<String> given = List.of(urls);
        if (given.isEmpty() || given.stream().anyMatch(String::isBlank)) {
            throw new BadConfigException("bad servers: " + (given.isEmpty() ? "none" : "an empty URL")
                    + ", allowed are URLs such as nats://127.0.0.1:4222");
        }
        return new IdClientOptions(given, user, password, credentials, prefix, inboxPrefix, timeout,
                traceparent, change);
    }

    /**
     * Sets the login, if the servers ask for one.
     *
     * @param user its name
     * @param password its password
     * @return changed options
     */
    public IdClientOptions withUser(String user, String password) {
        return new IdClientOptions(servers, user, password, credentials, prefix, inboxPrefix, timeout,
                traceparent, change);
    }

    /**
     * Sets the login by a file with JWT and seed, as {@code nsc} writes it.
     *
     * @param file it is read at each new connection
     * @return changed options
     */
    public IdClientOptions withCredentials(Path file) {
        return new IdClientOptions(servers, user, password, file, prefix, inboxPrefix, timeout,
                traceparent, change);
    }

    /**
     * Sets the prefix of the installation's subjects, {@code ids} by default.
     *
     * @param prefix a token of {@code a-z 0-9 _ -}, 1 … 32 bytes
     * @return changed options
     * @throws BadPrefixException if it is none
     */
    public IdClientOptions withPrefix(String prefix) {
        Tags.checkPrefix(prefix);
        return new IdClientOptions(servers, user, password, credentials, prefix, inboxPrefix, timeout,
                traceparent, change);
    }

    /**
     * Sets the prefix of the reply subjects that the user may subscribe to, {@code
     * _INBOX} by default.
     *
     * @param prefix tokens joined by single dots
     * @return changed options
     * @throws BadConfigException if it has spaces, wildcards or empty tokens
     */
    public IdClientOptions withInboxPrefix(String prefix) {
        boolean bad = ("." + prefix + ".").contains("..")
                || prefix.chars().anyMatch(c -> c <= ' ' || c == 0x7f || c == '*' || c == '>');
        if (bad) {
            throw new BadConfigException("bad inbox prefix: " + Quote.of(prefix, 40)
                    + ", allowed are tokens without spaces and wildcards, joined by single dots");
        }
        return new IdClientOptions(servers, user, password, credentials, this.prefix, prefix, timeout,
                traceparent, change);
    }

    /**
     * Sets the longest time of a call, 5 s by default. More than the workers' {@code
     * --wait} (2 s) lets them say why they are late.
     *
     * @param timeout more than 0
     * @return changed options
     * @throws BadConfigException if it is not
     */
    public IdClientOptions withTimeout(Duration timeout) {
        checkTimeout(timeout);
        return new IdClientOptions(servers, user, password, credentials, prefix, inboxPrefix, timeout,
                traceparent, change);
    }

    /**
     * Sets the source of the current span's W3C {@code traceparent}, which requests
     * carry into the workers' logs. Sequences have none.
     *
     * @param traceparent runs once for each call, as it begins, in the thread that
     *     makes it; gives 1 … 256 visible ASCII characters. Any other value is not
     *     sent, nor is one if it throws an exception
     * @return changed options
     */
    public IdClientOptions withTraceparent(Supplier<@Nullable String> traceparent) {
        Objects.requireNonNull(traceparent, "traceparent");
        return new IdClientOptions(servers, user, password, credentials, prefix, inboxPrefix, timeout,
                traceparent, change);
    }

    /**
     * Sets more options of the connection, such as TLS.
     *
     * @param change runs at each new connection, after all other options are set
     * @return changed options
     */
    public IdClientOptions withNats(UnaryOperator<Options.Builder> change) {
        return new IdClientOptions(servers, user, password, credentials, prefix, inboxPrefix, timeout,
                traceparent, change);
    }

    static void checkTimeout(Duration timeout) {
        if (timeout.isNegative() || timeout.isZero()) {
            throw new BadConfigException("bad time-out: " + timeout + ", allowed is more than 0");
        }
    }

    String prefix() {
        return prefix;
    }

    Duration timeout() {
        return timeout;
    }

    Supplier<@Nullable String> traceparent() {
        return traceparent;
    }

    /** Refuses what {@link #connect} would refuse without asking a server, by {@link BadConfigException}. */
    void check() {
        build(new Refusals(), () -> true);
    }

    /**
     * Connects.
     *
     * @param wanted whether to try one more server; the connection asks it again, in
     *     threads of its own, when it reconnects
     * @throws ConnectFailedException if no server accepts the connection
     * @throws BadConfigException if jnats refuses the options
     */
    Connection connect(BooleanSupplier wanted) throws InterruptedException {
        Refusals refusals = new Refusals();
        try {
            return Nats.connect(build(refusals, wanted));
        } catch (AuthenticationException e) {
            throw new ConnectFailedException(failed("the server refuses the login: " + e.getMessage()), e);
        } catch (IOException e) {
            Exception why = refusals.lastException();
            // The library's own exception would show the URLs with their passwords.
            throw new ConnectFailedException(failed(why == null ? "no server answers" : why.toString()), why);
        }
    }

    private Options build(Refusals refusals, BooleanSupplier wanted) {
        if (credentials != null && !Files.isReadable(credentials)) {
            throw new BadConfigException("bad credentials: file " + credentials + " cannot be read");
        }
        for (int i = 0; i < servers.size(); i++) {
            String problem = problemOf(servers.get(i).trim()); // as jnats trims it
            if (problem != null) {
                String which = servers.size() == 1 ? "" : " " + (i + 1) + " of " + servers.size();
                throw new BadConfigException("bad server URL" + which + ": " + problem);
            }
        }
        try {
            Options.Builder builder = new Options.Builder()
                    .servers(servers.toArray(String[]::new))
                    .serverPool(new NatsServerPool() {
                        @Override
                        public @Nullable NatsUri peekNextServer() {
                            return wanted.getAsBoolean() ? super.peekNextServer() : null;
                        }
                    })
                    .connectionName("idworker")
                    .inboxPrefix(inboxPrefix)
                    .connectionTimeout(CONNECT_TIMEOUT)
                    .maxReconnects(-1)
                    .reconnectWait(RECONNECT_PAUSE)
                    .reconnectJitter(RECONNECT_PAUSE)
                    // While a server reads nothing, requests must not block the timers of the others.
                    .discardMessagesWhenOutgoingQueueFull()
                    .errorListener(refusals);
            if (user != null && password != null) {
                builder.userInfo(user.toCharArray(), password.toCharArray());
            }
            if (credentials != null) {
                builder.authHandler(Nats.credentials(credentials.toString()));
            }
            return change.apply(builder).build();
        } catch (IllegalArgumentException | IllegalStateException e) {
            String problem = e.getCause() instanceof URISyntaxException
                    ? "a server URL of withNats, " + ALLOWED_URLS
                    : withoutLogin(String.valueOf(e.getMessage()));
            throw new BadConfigException("bad options of the connection: " + problem);
        }
    }

    /** Returns what is wrong with a URL, quoting at most one character of it: what seems a port may be a password. */
    private static @Nullable String problemOf(String url) {
        String login = url.substring(0, Math.max(0, url.lastIndexOf('@')));
        int start = login.indexOf("://");
        Matcher bad = NOT_IN_LOGIN.matcher(start < 0 ? login : login.substring(start + "://".length()));
        if (bad.find()) {
            String character = bad.group();
            return "its user or password has '" + character + "', write "
                    + String.format(Locale.ROOT, "%%%02X", (int) character.charAt(0));
        }
        try {
            int port = new NatsUri(url).getPort();
            return port < 1 || port > MAX_PORT ? "its port is not one from 1 to " + MAX_PORT : null;
        } catch (URISyntaxException e) { // its text would quote the URL
            return "its scheme or host cannot be read, " + ALLOWED_URLS;
        }
    }

    private String failed(String why) {
        return "connect to " + servers.stream().map(IdClientOptions::withoutLogin).collect(Collectors.joining(", "))
                + ": " + why;
    }

    /** Returns a text without the user and the password of a URL in it, which may contain any character. */
    static String withoutLogin(String text) {
        return text.contains("://") ? text.replaceAll("(?s)://.*@", "://") : text.replaceAll("(?s)^.*@", "");
    }
}
