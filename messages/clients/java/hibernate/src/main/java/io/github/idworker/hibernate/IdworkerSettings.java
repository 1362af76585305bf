package io.github.idworker.hibernate;

/**
 * Keys of Hibernate's configuration that give {@link IdworkerId} its IDs: an
 * object of the application, or the way to the servers. The first of
 * {@link #ROW_IDS}, {@link #CLIENT} and {@link #SERVERS} that is set counts.
 */
public final class IdworkerSettings {
    /** A {@link io.github.idworker.RowIds}, which the application closes. */
    public static final String ROW_IDS = "idworker.row_ids";

    /** An {@link io.github.idworker.IdClient}, which the application closes. */
    public static final String CLIENT = "idworker.client";

    /**
     * URLs of NATS servers, separated by commas. Hibernate's service registry then
     * has a client of its own, which connects in the background, and is closed with
     * the {@code SessionFactory}.
     */
    public static final String SERVERS = "idworker.servers";

    /** With {@link #SERVERS}: the user, if the servers ask for one. */
    public static final String USER = "idworker.user";

    /** With {@link #SERVERS}: the user's password. */
    public static final String PASSWORD = "idworker.password";

    /** With {@link #SERVERS}: the path of the file with JWT and seed. */
    public static final String CREDENTIALS = "idworker.credentials";

    /** With {@link #SERVERS}: the prefix of the installation's subjects, {@code ids} by default. */
    public static final String PREFIX = "idworker.prefix";

    /** With {@link #SERVERS}: the prefix of reply subjects, {@code _INBOX} by default. */
    public static final String INBOX_PREFIX = "idworker.inbox_prefix";

    /**
     * With {@link #SERVERS}: {@code true} if the {@code SessionFactory} is not to be
     * built unless a server accepts the client; {@code false} by default.
     */
    public static final String FAIL_FAST = "idworker.fail_fast";

    private IdworkerSettings() {}
}
