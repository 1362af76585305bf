package io.github.idworker;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import io.github.idworker.Driver.DriverException;
import io.github.idworker.Driver.None;
import io.github.idworker.IdBatch.Range;
import io.nats.client.Connection;
import io.nats.client.Nats;
import io.nats.client.Options;
import io.nats.client.impl.SocketDataPort;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/** The driver's operations with clients and prefetchers. */
final class DriverClients {
    private static final Duration RECONNECT = Duration.ofMillis(50);
    private static final int DRAIN_SECONDS = 60;

    /** A socket that the driver can close. The library makes it by its name. */
    public static final class Socket extends SocketDataPort {
        private static final Deque<Socket> MADE = new ConcurrentLinkedDeque<>(); // the latest first

        /** Called by the library, for each connection and reconnection. */
        public Socket() {
            MADE.addFirst(this);
        }

        /** The latest of a connection, which has the client's name. */
        static Socket of(String client) {
            return MADE.stream().filter(made -> made.socket != null)
                    .filter(made -> client.equals(made.connection().getOptions().getConnectionName()))
                    .findFirst().orElseThrow(() -> new DriverException("there is no connection of " + client));
        }

        void kill() throws IOException {
            socket.close();
        }

        Connection connection() {
            return connection;
        }
    }

    private record Connect(String client, String url, @Nullable String user, @Nullable String password,
            @Nullable String prefix, @JsonProperty("inbox_prefix") @Nullable String inboxPrefix,
            @JsonProperty("timeout_ms") @Nullable Long timeoutMs, boolean own) {}

    private record OfClient(String client) {}

    private record Call(String client, @Nullable String tag, @Nullable JsonNode n, boolean cancelled,
            @JsonProperty("timeout_ms") @Nullable Long timeoutMs) {}

    private record Many(String client, String tag, int callers, long calls, boolean cancelled,
            @JsonProperty("timeout_ms") @Nullable Long timeoutMs) {}

    private record Prefetch(String client, String name, @Nullable String tag,
            @JsonProperty("runway_ms") @Nullable Long runwayMs, @Nullable Long limit,
            @JsonProperty("max_batch") @Nullable Long maxBatch) {}

    private record OfPrefetcher(String name) {}

    private record Take(String name, @Nullable Long n, @Nullable Integer callers, @Nullable String mode,
            @JsonProperty("timeout_ms") @Nullable Long timeoutMs) {}

    private record Wall(long ms) {}

    record Ranges(List<String> ranges) {
        static Ranges of(IdBatch batch) {
            return new Ranges(batch.ranges().stream().map(Range::toString).toList());
        }

        static Ranges of(long id) {
            return new Ranges(List.of("" + id));
        }
    }

    private record Buffer(long buffered, @JsonProperty("in_flight") long inFlight, long target, long batch) {}

    private record Taken(List<String> ranges, Map<String, Long> errors, long descents) {}

    private final Map<String, IdClient> clients = new ConcurrentHashMap<>();
    private final Map<String, IdSequence> prefetchers = new ConcurrentHashMap<>();

    private final AtomicLong wall = new AtomicLong(); // how far the wall clock is ahead of the machine's, in ms

    DriverClients(Driver driver) {
        driver.on("connect", Connect.class, this::connect);
        driver.on("close", OfClient.class, this::close);
        driver.on("close_connection", OfClient.class, this::closeConnection);
        driver.on("drain", OfClient.class, this::drain);
        driver.on("kill_link", OfClient.class, this::killLink);
        driver.on("next", Call.class, f -> Ranges.of(client(f).next(f.tag)));
        driver.on("next_n", Call.class, f -> Ranges.of(client(f).next(f.tag, Driver.count(f.n))));
        driver.on("snowflake", Call.class, f -> Ranges.of(client(f).snowflake()));
        driver.on("snowflake_n", Call.class, f -> Ranges.of(client(f).snowflake(Driver.count(f.n))));
        driver.on("many", Many.class, this::many);
        driver.on("prefetch", Prefetch.class, this::prefetch);
        driver.on("take", Take.class, this::take);
        driver.on("buffer", OfPrefetcher.class, this::buffer);
        driver.on("close_prefetch", OfPrefetcher.class, this::closePrefetch);
        driver.on("wall", Wall.class, this::moveWall);
        driver.on("checkpoint", None.class, f -> forAll(IdClient::suspend));
        driver.on("restore", None.class, f -> forAll(IdClient::resume));
    }

    private Object connect(Connect f) throws Exception {
        IdClientOptions options = IdClientOptions.DEFAULTS.withServers(f.url).withNats(nats -> options(f, nats))
                .withTraceparent(Driver::traceparent);
        if (f.prefix != null) {
            options = options.withPrefix(f.prefix);
        }
        if (f.timeoutMs != null) {
            options = options.withTimeout(Duration.ofMillis(f.timeoutMs));
        }
        if (f.own) {
            if (f.user != null) {
                options = options.withUser(f.user, f.password);
            }
            if (f.inboxPrefix != null) {
                options = options.withInboxPrefix(f.inboxPrefix);
            }
            clients.put(f.client, NatsIdClient.connect(options, environment()));
            return Driver.NOTHING;
        }
        Options.Builder nats = options(f, Options.builder().server(f.url).maxReconnects(-1));
        if (f.user != null) {
            nats.userInfo(f.user, f.password);
        }
        if (f.inboxPrefix != null) {
            nats.inboxPrefix(f.inboxPrefix);
        }
        Connection connection;
        try {
            connection = Nats.connect(nats.build());
        } catch (IOException e) {
            throw new ConnectFailedException(e.getMessage(), e);
        }
        clients.put(f.client, NatsIdClient.of(connection, options, environment()));
        return Driver.NOTHING;
    }

    private Environment environment() {
        Environment real = Environment.real();
        return new Environment(real.timers(), () -> real.wall().getAsLong() + wall.get(), real.random());
    }

    private Object moveWall(Wall f) {
        wall.addAndGet(f.ms);
        return Driver.NOTHING;
    }

    private Object forAll(Consumer<IdClient> action) {
        clients.values().forEach(action);
        return Driver.NOTHING;
    }

    private static Options.Builder options(Connect f, Options.Builder builder) {
        return builder.connectionName(f.client).dataPortType(Socket.class.getName())
                .reconnectWait(RECONNECT).reconnectJitter(Duration.ofMillis(1));
    }

    private IdClient client(String name) {
        return found(clients, name);
    }

    /** Returns the client of a call, with the call's time-out; a cancelled call begins interrupted. */
    private IdClient client(Call f) {
        IdClient client = withTimeout(client(f.client), f.timeoutMs);
        if (f.cancelled) {
            Thread.currentThread().interrupt();
        }
        return client;
    }

    private static IdClient withTimeout(IdClient client, @Nullable Long ms) {
        return ms == null ? client : client.withTimeout(Duration.ofMillis(ms));
    }

    private static <T> T found(Map<String, T> all, String name) {
        T one = all.get(name);
        if (one == null) {
            throw new DriverException("there is no " + name);
        }
        return one;
    }

    private Object close(OfClient f) throws Exception {
        client(f.client).close();
        return closeConnection(f);
    }

    private Object closeConnection(OfClient f) throws Exception {
        Socket.of(f.client).connection().close();
        return Driver.NOTHING;
    }

    private Object drain(OfClient f) throws Exception {
        Socket.of(f.client).connection().drain(Duration.ofSeconds(DRAIN_SECONDS));
        return Driver.NOTHING;
    }

    private Object killLink(OfClient f) throws Exception {
        Socket.of(f.client).kill();
        return Driver.NOTHING;
    }

    private Object many(Many f) throws Exception {
        IdClient client = withTimeout(client(f.client), f.timeoutMs);
        return atOnce(f.callers, f.calls, f.cancelled, () -> client.next(f.tag)).taken();
    }

    private Object prefetch(Prefetch f) {
        PrefetchOptions defaults = PrefetchOptions.DEFAULTS;
        PrefetchOptions options = new PrefetchOptions(
                f.runwayMs == null ? defaults.runway() : Duration.ofMillis(f.runwayMs),
                f.limit == null ? defaults.limit() : f.limit,
                f.maxBatch == null ? defaults.maxBatch() : f.maxBatch);
        IdClient client = client(f.client);
        prefetchers.put(f.name, f.tag == null ? client.prefetchSnowflake(options) : client.prefetch(f.tag, options));
        return Driver.NOTHING;
    }

    private Object take(Take f) throws Exception {
        if (f.mode != null && !f.mode.equals("wait")) {
            throw new DriverException("the mode " + f.mode);
        }
        IdSequence sequence = found(prefetchers, f.name);
        Duration timeout = f.timeoutMs == null ? null : Duration.ofMillis(f.timeoutMs);
        int callers = f.callers == null ? 1 : f.callers;
        Calls calls = atOnce(callers, f.n == null ? 1 : f.n, false,
                timeout == null ? sequence::next : () -> sequence.next(timeout));
        if (callers == 1 && calls.first != null) {
            throw calls.first;
        }
        return calls.taken();
    }

    private Object closePrefetch(OfPrefetcher f) {
        found(prefetchers, f.name).close();
        return Driver.NOTHING;
    }

    private Object buffer(OfPrefetcher f) {
        Prefetcher.Figures figures = ((Prefetcher) found(prefetchers, f.name)).figures();
        return new Buffer(figures.buffered(), figures.inFlight(), figures.target(), figures.batch());
    }

    /** What callers got. */
    private static final class Calls {
        private final List<long[]> ids = new ArrayList<>();
        private final Map<String, Long> errors = new TreeMap<>();
        private long descents;
        private @Nullable IdworkerException first;

        synchronized void add(long[] got, @Nullable IdworkerException error) {
            ids.add(got);
            for (int i = 1; i < got.length; i++) {
                descents += got[i] <= got[i - 1] ? 1 : 0;
            }
            if (error != null) {
                errors.merge(Driver.kindOf(error), 1L, Long::sum);
                first = first == null ? error : first;
            }
        }

        /** All IDs are sorted, and neighbours joined. An ID that came twice is in two ranges. */
        Taken taken() {
            long[] all = ids.stream().flatMapToLong(LongStream::of).sorted().toArray();
            List<String> ranges = new ArrayList<>();
            for (int begin = 0, end; begin < all.length; begin = end) {
                for (end = begin + 1; end < all.length && all[end] == all[end - 1] + 1; end++) {
                    // It continues the range.
                }
                ranges.add(new Range(all[begin], all[end - 1]).toString());
            }
            return new Taken(ranges, errors, descents);
        }
    }

    /** Calls from so many threads, from each so many times or up to its first error. A lone caller is this thread. */
    private static Calls atOnce(int callers, long times, boolean cancelled, LongSupplier call) {
        Calls calls = new Calls();
        Runnable caller = () -> {
            if (cancelled) {
                Thread.currentThread().interrupt();
            }
            long[] ids = new long[1];
            int got = 0;
            IdworkerException error = null;
            while (got < times && error == null) {
                if (got == ids.length) {
                    ids = Arrays.copyOf(ids, 2 * got);
                }
                try {
                    ids[got] = call.getAsLong();
                    got++;
                } catch (IdworkerException e) {
                    error = e;
                }
            }
            calls.add(Arrays.copyOf(ids, got), error);
        };
        if (callers == 1) {
            caller.run();
            return calls;
        }
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < callers; i++) {
            threads.add(new Thread(caller));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            join(thread, threads);
        }
        return calls;
    }

    /** Waits for a thread. An interrupt is for all of them. */
    private static void join(Thread thread, List<Thread> all) {
        while (thread.isAlive()) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                all.forEach(Thread::interrupt);
            }
        }
    }
}
