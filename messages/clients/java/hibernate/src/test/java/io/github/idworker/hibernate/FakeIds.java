package io.github.idworker.hibernate;

import io.github.idworker.IdClient;
import io.github.idworker.IdSequence;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;

/** A client without a server: its sequences count on from one number, and remember what they gave to which tag. */
final class FakeIds {
    static final String SNOWFLAKE = "(snowflake)";

    final IdClient client = (IdClient) Proxy.newProxyInstance(IdClient.class.getClassLoader(),
            new Class<?>[] {IdClient.class}, (proxy, method, arguments) -> switch (method.getName()) {
                case "prefetch" -> new Sequence((String) arguments[0]);
                case "prefetchSnowflake" -> new Sequence(SNOWFLAKE);
                default -> throw new AssertionError(method);
            });

    private final AtomicLong next;
    private final ConcurrentMap<String, List<Long>> given = new ConcurrentHashMap<>();

    FakeIds(long first) {
        next = new AtomicLong(first);
    }

    /** The IDs of each tag, as they were given. */
    Map<String, List<Long>> given() {
        return Map.copyOf(given);
    }

    /** Forgets what was given; no ID is given again. */
    void forget() {
        given.clear();
    }

    private final class Sequence implements IdSequence {
        private final String tag;

        Sequence(String tag) {
            this.tag = tag;
        }

        @Override
        public long next() {
            long id = next.getAndIncrement();
            given.merge(tag, List.of(id), (old, last) -> Stream.concat(old.stream(), last.stream()).toList());
            return id;
        }

        @Override
        public long next(Duration timeout) {
            return next();
        }

        @Override
        public void close() {}
    }
}
