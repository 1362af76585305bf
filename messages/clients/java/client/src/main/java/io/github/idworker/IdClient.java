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
 * fails with an {@link IdworkerException}, whose subclass says why. An interrupt
 * ends a waiting call with {@link CancelledException}, and the thread stays
 * interrupted.
 *
 * <p>Thread-safe. A service has one client a connection. It may be used from
 * virtual threads.
 */
public interface IdClient extends AutoCloseable {
    /** Returns a client on a connection that the caller closes. */
    static IdClient of(Connection connection) {
        return of(connection, IdClientOptions.DEFAULTS);
    }

    /**
     * Returns a client on a connection that the caller closes. Of the options it
     * uses the prefix and the time-out.
     *
     * @throws BadPrefixException if the options have a prefix that is none
     */
    static IdClient of(Connection connection, IdClientOptions options) {
        return NatsIdClient.of(connection, options, Environment.real());
    }

    /**
     * Connects, and returns a client that closes its connection with itself. The
     * connection reconnects without end.
     *
     * @throws ConnectFailedException if the server is not there, or refuses the login
     * @throws BadPrefixException if the options have a prefix that is none
     */
    static IdClient connect(IdClientOptions options) {
        return NatsIdClient.connect(options, Environment.real());
    }

    /** Returns an ID of the tag. */
    long next(String tag);

    /**
     * Returns n IDs of the tag, ascending.
     *
     * @param n at least 1; the worker refuses more than its limit, 10,000 by default
     * @throws BadCountException if n is below 1
     * @throws MalformedRequestException if n is above the worker's limit
     */
    IdBatch next(String tag, long n);

    /** Returns a snowflake ID. */
    long snowflake();

    /** Returns n snowflake IDs, ascending. */
    IdBatch snowflake(long n);

    /** As {@link #next(String)}. Cancelling the future ends the call. */
    CompletableFuture<Long> nextAsync(String tag);

    /** As {@link #next(String, long)}. Cancelling the future ends the call. */
    CompletableFuture<IdBatch> nextAsync(String tag, long n);

    /** As {@link #snowflake()}. Cancelling the future ends the call. */
    CompletableFuture<Long> snowflakeAsync();

    /** As {@link #snowflake(long)}. Cancelling the future ends the call. */
    CompletableFuture<IdBatch> snowflakeAsync(long n);

    /** Returns a sequence that buffers IDs of the tag. It sends nothing before the first take. */
    default IdSequence prefetch(String tag) {
        return prefetch(tag, PrefetchOptions.DEFAULTS);
    }

    /** As {@link #prefetch(String)}, with options. */
    IdSequence prefetch(String tag, PrefetchOptions options);

    /** Returns a sequence that buffers snowflake IDs. It sends nothing before the first take. */
    default IdSequence prefetchSnowflake() {
        return prefetchSnowflake(PrefetchOptions.DEFAULTS);
    }

    /** As {@link #prefetchSnowflake()}, with options. */
    IdSequence prefetchSnowflake(PrefetchOptions options);

    /**
     * Returns this client with another time-out for its calls; it shares all else,
     * and closing either closes both.
     *
     * @param timeout more than 0
     */
    IdClient withTimeout(Duration timeout);

    /**
     * Prepares for a copy of the process, as a checkpoint makes it: drops all
     * buffered IDs, forgets all requests in flight, and closes the connection if
     * the client made it. Calls wait until {@link #resume}. Where {@code org.crac}
     * is on the class path, its checkpoints do this; other frameworks call it.
     *
     * @throws IllegalStateException if the client is on a caller's connection that
     *     is not closed
     */
    void suspend();

    /** Ends {@link #suspend}: the next call connects and asks anew. */
    void resume();

    /** Ends all calls and sequences of this client with {@link ClosedException}. Idempotent. */
    @Override
    void close();
}
