package io.github.idworker;

import io.nats.client.Connection;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * Requests IDs from idworker. An ID is 1 … 2^63−2, a snowflake ID 1 … 2^63−1.
 * No two calls return the same ID, whoever makes them.
 *
 * <p>A call repeats its request until a worker answers, or until its time is
 * over; what the workers cannot serve at the moment is no error before that. It
 * fails with an {@link IdworkerException}, whose subclass says why:
 *
 * <table>
 * <caption>Errors of calls</caption>
 * <tr><th>exception</th><th>why</th><th>retryable</th></tr>
 * <tr><td>{@link BadTagException}, {@link BadCountException}</td><td>nothing was sent</td><td>no</td></tr>
 * <tr><td>{@link NoSuchTagException}, {@link MalformedRequestException}, {@link ExhaustedException},
 *     {@link ErrorReplyException}</td><td>a worker refuses</td><td>no</td></tr>
 * <tr><td>{@link CallTimeoutException}</td><td>no ID in time; it has the latest reason</td><td>yes</td></tr>
 * <tr><td>{@link PermissionDeniedException}</td><td>the NATS server refuses</td><td>no</td></tr>
 * <tr><td>{@link ConnectionEndedException}</td><td>the connection is closed or draining</td><td>no</td></tr>
 * <tr><td>{@link BadReplyException}</td><td>a reply that breaks the contract</td><td>no</td></tr>
 * <tr><td>{@link ClosedException}</td><td>the client is closed</td><td>no</td></tr>
 * <tr><td>{@link CancelledException}</td><td>the thread was interrupted, and stays so</td><td>no</td></tr>
 * </table>
 *
 * <p>Futures fail with the same exceptions. They end in their default executor,
 * the common pool, so what is chained to them may block without holding up other
 * calls.
 *
 * <p>Thread-safe, also for virtual threads. A service needs one client for each
 * connection: a client has one subscription, and a thread of timers while calls
 * are under way.
 */
public interface IdClient extends AutoCloseable {
    /**
     * Returns a client of the prefix {@code ids} on a connection that the caller
     * closes.
     *
     * @param connection a connection, whose inbox prefix is used
     * @return a client whose calls last 5 s at most
     */
    static IdClient of(Connection connection) {
        return of(connection, IdClientOptions.DEFAULTS);
    }

    /**
     * Returns a client on a connection that the caller closes. A connection with
     * {@code discardMessagesWhenOutgoingQueueFull} blocks no call while its server
     * reads nothing; the client's own connections have it.
     *
     * @param connection a connection, whose inbox prefix is used
     * @param options of which only the prefix, the time-out and the trace count
     * @return the client
     */
    static IdClient of(Connection connection, IdClientOptions options) {
        return NatsIdClient.of(connection, options, Environment.real());
    }

    /**
     * Returns a client for tests, which counts the IDs of each tag in memory: 1, 2, 3
     * and so on, and the snowflake IDs likewise. It needs no NATS. Every tag exists,
     * and none is strict; tags, counts, also of more than 10,000, and a closed client
     * are refused as a real client refuses them.
     *
     * @return a client of counters, which it shares with no other client
     */
    static IdClient inMemory() {
        return new InMemoryIdClient();
    }

    /**
     * Returns a client at once, which connects in the background, and keeps trying
     * until a server accepts it. A call that finds no connection waits for it, and
     * fails with {@link CallTimeoutException} if its time is over before. The log
     * says why there is no connection yet. The client closes its connection with
     * itself, and the connection reconnects indefinitely.
     *
     * @param options where and how to connect
     * @return the client
     * @throws BadConfigException if the options make no connection, such as a URL
     *     that is none, or a file of credentials that cannot be read
     */
    static IdClient connectInBackground(IdClientOptions options) {
        return NatsIdClient.connectInBackground(options, Environment.real());
    }

    /**
     * Connects, and returns a client that closes its connection with itself. The
     * connection reconnects indefinitely.
     *
     * @param options where and how to connect
     * @return the client
     * @throws ConnectFailedException if no server answers, or it refuses the login
     * @throws BadConfigException if the options make no connection, such as a URL
     *     that is none
     * @throws CancelledException if the thread is interrupted
     */
    static IdClient connect(IdClientOptions options) {
        return NatsIdClient.connect(options, Environment.real());
    }

    /**
     * Requests an ID.
     *
     * @param tag tokens of {@code A-Z a-z 0-9 _ -}, joined by single dots, 1 … 128
     *     bytes
     * @return an ID of the tag
     * @throws IdworkerException as the class lists
     */
    long next(String tag);

    /**
     * Requests IDs.
     *
     * @param tag as in {@link #next(String)}
     * @param n at least 1; the worker refuses more than its limit, 10,000 by default
     * @return n IDs of the tag, ascending
     * @throws IdworkerException as the class lists
     */
    IdBatch next(String tag, long n);

    /**
     * Requests a snowflake ID.
     *
     * @return an ID that sorts by the time at which a worker made it
     * @throws IdworkerException as the class lists
     */
    long snowflake();

    /**
     * Requests snowflake IDs.
     *
     * @param n at least 1; the worker refuses more than its limit, 10,000 by default
     * @return n IDs, ascending
     * @throws IdworkerException as the class lists
     */
    IdBatch snowflake(long n);

    /**
     * Requests an ID, and does not wait.
     *
     * @param tag as in {@link #next(String)}
     * @return the ID of the tag, or the error; cancelling it ends the call
     */
    CompletableFuture<Long> nextAsync(String tag);

    /**
     * Requests IDs, and does not wait.
     *
     * @param tag as in {@link #next(String)}
     * @param n as in {@link #next(String, long)}
     * @return the IDs of the tag, or the error; cancelling it ends the call
     */
    CompletableFuture<IdBatch> nextAsync(String tag, long n);

    /**
     * Requests a snowflake ID, and does not wait.
     *
     * @return the ID, or the error; cancelling it ends the call
     */
    CompletableFuture<Long> snowflakeAsync();

    /**
     * Requests snowflake IDs, and does not wait.
     *
     * @param n as in {@link #snowflake(long)}
     * @return the IDs, or the error; cancelling it ends the call
     */
    CompletableFuture<IdBatch> snowflakeAsync(long n);

    /**
     * Returns a sequence with {@link PrefetchOptions#DEFAULTS}.
     *
     * @param tag as in {@link #next(String)}
     * @return IDs of the tag from a buffer; it sends nothing before the first take
     * @throws BadTagException if the tag is none
     */
    default IdSequence prefetch(String tag) {
        return prefetch(tag, PrefetchOptions.DEFAULTS);
    }

    /**
     * Returns a sequence.
     *
     * @param tag as in {@link #next(String)}
     * @param options how much it buffers
     * @return IDs of the tag from a buffer; it sends nothing before the first take
     * @throws BadTagException if the tag is none
     */
    IdSequence prefetch(String tag, PrefetchOptions options);

    /**
     * Returns a sequence of snowflake IDs with {@link PrefetchOptions#DEFAULTS}.
     *
     * @return snowflake IDs from a buffer; it sends nothing before the first take
     */
    default IdSequence prefetchSnowflake() {
        return prefetchSnowflake(PrefetchOptions.DEFAULTS);
    }

    /**
     * Returns a sequence of snowflake IDs. They sort by the time at which a worker
     * made them, up to a minute before they are taken.
     *
     * @param options how much it buffers
     * @return snowflake IDs from a buffer; it sends nothing before the first take
     */
    IdSequence prefetchSnowflake(PrefetchOptions options);

    /**
     * Returns this client with another time-out for its calls, and for takes of its
     * sequences. It shares all else, and closing either closes both.
     *
     * @param timeout more than 0
     * @return a client that costs next to nothing
     * @throws BadConfigException if the time-out is not more than 0
     */
    IdClient withTimeout(Duration timeout);

    /**
     * Prepares for a copy of the process, as a checkpoint makes it: drops all
     * buffered IDs and all replies that are still to come, and closes the connection
     * if the client made it. It returns when that is done, which may take a few seconds
     * while a server that keeps silent is being asked for a connection. Calls wait
     * until {@link #resume}, and fail if their time is over before.
     *
     * <p>Where {@code org.crac} is on the class path, its checkpoints do this. Other
     * frameworks call it. An ID that a call has returned is the caller's, who must
     * not use it in two copies.
     *
     * @throws IllegalStateException if the client is on a caller's connection that
     *     is not closed; buffered IDs are dropped then, too, but calls go on
     */
    void suspend();

    /** Ends {@link #suspend}: the next call connects and asks anew. */
    void resume();

    /**
     * Ends all calls and sequences of this client with {@link ClosedException}, and
     * closes the connection if the client made it. Idempotent.
     */
    @Override
    void close();
}
