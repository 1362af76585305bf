package io.github.idworker;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/**
 * One ID for each row, for object-relational mappers, whose hooks ask for them
 * one by one: a sequence for each tag, made at its first use and shared by all
 * who ask for the tag.
 *
 * <p>A strict tag has no buffer, so each row costs a request; the log of
 * {@code io.github.idworker} says so once a tag. A wait is short, since a
 * transaction may be open, and ends in a retryable exception.
 *
 * <p>Thread-safe.
 */
public final class RowIds implements AutoCloseable {
    /** The longest wait by default. */
    public static final Duration DEFAULT_WAIT = Duration.ofSeconds(2);

    /** The key of the snowflake IDs' sequence: no tag is empty. */
    private static final String SNOWFLAKE = "";

    private final IdClient client;
    private final Duration wait;
    private final PrefetchOptions options;
    private final Set<String> direct = ConcurrentHashMap.newKeySet();
    private final Map<String, IdSequence> sequences = new ConcurrentHashMap<>();
    private volatile boolean closed;

    private RowIds(IdClient client, Duration wait, PrefetchOptions options, Set<String> direct) {
        this.client = client;
        this.wait = wait;
        this.options = options;
        this.direct.addAll(direct);
    }

    /**
     * Returns row IDs that wait {@link #DEFAULT_WAIT} at most.
     *
     * @param client where IDs come from; the caller closes it
     * @return IDs of all tags
     */
    public static RowIds of(IdClient client) {
        return of(client, DEFAULT_WAIT, PrefetchOptions.DEFAULTS, Set.of());
    }

    /**
     * Returns row IDs.
     *
     * @param client where IDs come from; the caller closes it
     * @param wait the longest wait for an ID, more than 0
     * @param options how much each tag's sequence buffers
     * @param direct the tags that are requested row by row, as strict tags are
     * @return IDs of all tags
     * @throws BadConfigException if the wait is not more than 0
     * @throws BadTagException if one of the tags is none
     */
    public static RowIds of(IdClient client, Duration wait, PrefetchOptions options, Set<String> direct) {
        IdClientOptions.checkTimeout(wait);
        direct.forEach(Tags::check);
        return new RowIds(client, wait, options, direct);
    }

    /**
     * Returns an ID for a row.
     *
     * @param tag as in {@link IdClient#next(String)}
     * @return an ID of the tag
     * @throws CallTimeoutException if none came in time; it may be tried again
     * @throws ClosedException if this or the client is closed
     * @throws IdworkerException as {@link IdClient} lists
     */
    public long next(String tag) {
        if (closed) {
            throw Failure.ROWS_CLOSED.exception();
        }
        long begin = System.nanoTime();
        if (!direct.contains(tag)) {
            try {
                return sequence(tag, () -> client.prefetch(tag, options)).next(wait);
            } catch (StrictTagException e) {
                makeDirect(tag);
            } catch (ClosedException e) {
                if (!direct.contains(tag)) {
                    throw e;
                }
                // Another thread learned that the tag is strict.
            }
        }
        Duration left = wait.minusNanos(System.nanoTime() - begin);
        return client.withTimeout(left.isNegative() || left.isZero() ? Duration.ofNanos(1) : left).next(tag);
    }

    /**
     * Returns a snowflake ID for a row.
     *
     * @return an ID that sorts roughly by time
     * @throws CallTimeoutException if none came in time; it may be tried again
     * @throws ClosedException if this or the client is closed
     * @throws IdworkerException as {@link IdClient} lists
     */
    public long snowflake() {
        if (closed) {
            throw Failure.ROWS_CLOSED.exception();
        }
        return sequence(SNOWFLAKE, () -> client.prefetchSnowflake(options)).next(wait);
    }

    /** Closes the sequences, so that further calls fail; the client stays open. Idempotent. */
    @Override
    public void close() {
        closed = true;
        sequences.values().forEach(IdSequence::close);
    }

    private IdSequence sequence(String key, Supplier<IdSequence> make) {
        IdSequence found = sequences.get(key);
        if (found == null) {
            found = sequences.computeIfAbsent(key, unused -> make.get());
            if (closed) {
                found.close();
            }
        }
        return found;
    }

    /** A tag is strict for its life, so it stays direct for that of the process. */
    private void makeDirect(String tag) {
        if (direct.add(tag)) {
            Outages.log(Level.WARNING, "tag is strict, each row a request: tag={0}", tag);
        }
        IdSequence sequence = sequences.remove(tag);
        if (sequence != null) {
            sequence.close();
        }
    }
}
