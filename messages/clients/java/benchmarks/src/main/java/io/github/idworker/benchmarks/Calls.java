package io.github.idworker.benchmarks;

import io.github.idworker.IdClient;
import io.github.idworker.OpaqueIds;
import io.github.idworker.testkit.Installation;
import io.nats.client.Connection;
import io.nats.client.Message;
import io.nats.client.Nats;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** The cost of a call, beside a request of the library to the same worker. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Calls {
    private static final Duration TIMEOUT = Duration.ofSeconds(5);

    /** A worker and a connection. */
    @State(Scope.Benchmark)
    public static class Worker {
        private Installation installation;
        private Connection connection;
        private IdClient client;

        @Setup
        public void start() throws Exception {
            installation = Installation.start();
            installation.createTag("order");
            connection = Nats.connect(installation.url());
            client = IdClient.of(connection);
        }

        @TearDown
        public void end() throws Exception {
            client.close();
            connection.close();
            installation.close();
        }
    }

    @State(Scope.Benchmark)
    public static class Codec {
        private final OpaqueIds.Numbers numbers =
                OpaqueIds.parse("number AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").numbers("order", 63);
        private long id;
    }

    @Benchmark
    public Message bareRequest(Worker worker) throws InterruptedException {
        return worker.connection.request("ids.segment.order", null, TIMEOUT);
    }

    @Benchmark
    public long next(Worker worker) {
        return worker.client.next("order");
    }

    @Benchmark
    public long seal(Codec codec) {
        return codec.numbers.seal(++codec.id);
    }
}
