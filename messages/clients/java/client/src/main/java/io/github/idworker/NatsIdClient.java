package io.github.idworker;

import io.github.idworker.IdBatch.Range;
import io.nats.client.Connection;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The client: it makes calls and sequences, and ends them. */
final class NatsIdClient implements IdClient {
    private static final int MOST_TRACEPARENT_CHARACTERS = 256;

    /** What the clients share that differ in their time-outs. */
    private static final class Shared {
        private final Link link;
        private final Environment environment;
        private final Outages outages;
        private final String prefix;
        private final Supplier<@Nullable String> traceparent;
        private final Set<Prefetcher> sequences = ConcurrentHashMap.newKeySet();
        private @Nullable Object checkpointHook; // a CheckpointHook, to which the framework has no strong reference
        private volatile boolean closed;

        Shared(Link link, Environment environment, IdClientOptions options) {
            this.link = link;
            this.environment = environment;
            this.outages = new Outages(environment.timers());
            this.prefix = options.prefix();
            this.traceparent = options.traceparent();
        }
    }

    private final Shared shared;
    private final long timeout;

    private NatsIdClient(Shared shared, Duration timeout) {
        this.shared = shared;
        this.timeout = nanos(timeout);
    }

    /** Returns a client on a caller's connection. */
    static NatsIdClient of(Connection connection, IdClientOptions options, Environment environment) {
        return make(Link.of(connection), options, environment);
    }

    /** Returns a client that owns its connection, and makes it in the background. */
    static NatsIdClient connectInBackground(IdClientOptions options, Environment environment) {
        options.check();
        return make(Link.connecting(options::connect), options, environment);
    }

    /** Connects, and returns a client that owns its connection. */
    static NatsIdClient connect(IdClientOptions options, Environment environment) {
        try {
            return make(Link.of(options.connect(() -> true), options::connect), options, environment);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw Failure.cancelled(null, 0).exception();
        }
    }

    private static NatsIdClient make(Link link, IdClientOptions options, Environment environment) {
        Shared shared = new Shared(link, environment, options);
        NatsIdClient client = new NatsIdClient(shared, options.timeout());
        try {
            shared.checkpointHook = CheckpointHook.register(client);
        } catch (NoClassDefFoundError e) {
            // org.crac is not on the class path
        }
        return client;
    }

    @Override
    public long next(String tag) {
        return first(request(segment(tag), 1));
    }

    @Override
    public IdBatch next(String tag, long n) {
        return new IdBatch(request(segment(tag), n));
    }

    @Override
    public long snowflake() {
        return first(request(snowflakes(), 1));
    }

    @Override
    public IdBatch snowflake(long n) {
        return new IdBatch(request(snowflakes(), n));
    }

    @Override
    public CompletableFuture<Long> nextAsync(String tag) {
        return requestAsync(() -> segment(tag), 1, NatsIdClient::first);
    }

    @Override
    public CompletableFuture<IdBatch> nextAsync(String tag, long n) {
        return requestAsync(() -> segment(tag), n, IdBatch::new);
    }

    @Override
    public CompletableFuture<Long> snowflakeAsync() {
        return requestAsync(this::snowflakes, 1, NatsIdClient::first);
    }

    @Override
    public CompletableFuture<IdBatch> snowflakeAsync(long n) {
        return requestAsync(this::snowflakes, n, IdBatch::new);
    }

    @Override
    public IdSequence prefetch(String tag, PrefetchOptions options) {
        return prefetch(segment(tag), options, false);
    }

    @Override
    public IdSequence prefetchSnowflake(PrefetchOptions options) {
        return prefetch(snowflakes(), options, true);
    }

    /**
     * Returns a sequence. A worker refuses a batch that reaches too far ahead of its
     * clock for as long as the batch is that large: its requests give up at once.
     */
    private Prefetcher prefetch(String subject, PrefetchOptions options, boolean snowflake) {
        Prefetcher made = new Prefetcher(subject, options, shared.environment,
                (n, whenDone) -> call(Call.Request.prefetched(subject, n, snowflake && n > 1), Call.ENDLESS, whenDone),
                timeout, shared.outages, shared.sequences::remove);
        shared.sequences.add(made);
        if (shared.closed) {
            made.close();
        }
        return made;
    }

    @Override
    public IdClient withTimeout(Duration timeout) {
        IdClientOptions.checkTimeout(timeout);
        return new NatsIdClient(shared, timeout);
    }

    @Override
    public void suspend() {
        shared.link.suspend(() -> shared.sequences.forEach(Prefetcher::restart));
    }

    @Override
    public void resume() {
        shared.link.resume();
    }

    @Override
    public void close() {
        shared.closed = true;
        shared.sequences.forEach(Prefetcher::close);
        shared.link.close();
        shared.environment.timers().end();
    }

    /**
     * The {@code org.crac.Resource} that a framework calls at checkpoints. It is not
     * declared as one, since Spring resolves the types of all methods of a bean, and
     * org.crac may be missing.
     */
    @Nullable Object checkpointHook() {
        return shared.checkpointHook;
    }

    private String segment(String tag) {
        Tags.check(tag);
        return shared.prefix + ".segment." + tag;
    }

    private String snowflakes() {
        return shared.prefix + ".snowflake";
    }

    private List<Range> request(String subject, long n) {
        checkCount(n);
        Call call = call(Call.Request.of(subject, n, traceparent()), timeout, outcome -> {});
        if (Thread.currentThread().isInterrupted()) {
            call.cancel();
        } else {
            call.start();
        }
        return ids(subject, call.join());
    }

    /** Returns the IDs of a call that has ended, or throws. */
    private List<Range> ids(String subject, Outcome outcome) {
        List<Range> ids;
        try {
            ids = outcome.get();
        } catch (IdworkerException e) {
            shared.outages.failed(e);
            throw e;
        }
        shared.outages.succeeded(subject);
        return ids;
    }

    /** As request. Futures end in their default executor: what follows them may block, and must not stop replies. */
    private <T> CompletableFuture<T> requestAsync(Subject subject, long n, Function<List<Range>, T> result) {
        CompletableFuture<T> future = new CompletableFuture<>();
        try {
            String to = subject.check();
            checkCount(n);
            Call call = call(Call.Request.of(to, n, traceparent()), timeout, outcome ->
                    future.defaultExecutor().execute(() -> complete(future, () -> result.apply(ids(to, outcome)))));
            future.whenComplete((ids, error) -> call.cancel());
            call.start();
        } catch (BadArgumentException e) {
            future.completeExceptionally(e);
        }
        return future;
    }

    /** A subject, or the exception of a tag that is none. */
    private interface Subject {
        String check();
    }

    private static <T> void complete(CompletableFuture<T> future, Supplier<T> result) {
        try {
            future.complete(result.get());
        } catch (IdworkerException e) {
            future.completeExceptionally(e);
        }
    }

    /**
     * Returns the trace of the caller's thread; null if there is none that may be
     * sent: a trace must not cost an ID.
     */
    private @Nullable String traceparent() {
        try {
            String value = shared.traceparent.get();
            return value != null && isTraceparent(value) ? value : null;
        } catch (Exception | LinkageError e) {
            return null;
        }
    }

    static boolean isTraceparent(String value) {
        return !value.isEmpty() && value.length() <= MOST_TRACEPARENT_CHARACTERS
                && value.chars().allMatch(c -> c > ' ' && c <= '~');
    }

    private Call call(Call.Request request, long timeout, Consumer<Outcome> whenDone) {
        return new Call(request, shared.link, shared.environment, timeout, whenDone);
    }

    static void checkCount(long n) {
        if (n < 1) {
            throw new BadCountException("bad count: " + n + ", allowed is 1 or more");
        }
    }

    private static long first(List<Range> ranges) {
        return ranges.get(0).first();
    }

    /** Returns a duration in nanoseconds, from 0 to 146 years. */
    static long nanos(Duration duration) {
        long most = Long.MAX_VALUE / 2;
        if (duration.isNegative()) {
            return 0;
        }
        return duration.getSeconds() >= TimeUnit.NANOSECONDS.toSeconds(most) ? most : duration.toNanos();
    }
}
