package io.github.idworker.benchmarks;

import io.github.idworker.IdClient;
import io.github.idworker.IdClientOptions;
import io.github.idworker.IdSequence;
import io.github.idworker.PrefetchOptions;
import io.github.idworker.testkit.Installation;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import me.ahoo.cosid.segment.IdSegmentDistributor;
import me.ahoo.cosid.segment.SegmentChainId;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/**
 * The cost of an ID from a buffer. The sequence has a real worker, whose batches
 * are as large as the segments that CosId's generator gets from memory: so neither
 * has to wait.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Takes {
    private static final int BATCH = 1_000_000;
    private static final int BUFFER = 100 * BATCH;

    /** The baseline: no ID can be cheaper that threads share. */
    @State(Scope.Benchmark)
    public static class Counter {
        private final AtomicLong counter = new AtomicLong();
    }

    @State(Scope.Benchmark)
    public static class SegmentChain {
        private final SegmentChainId ids = new SegmentChainId(new IdSegmentDistributor.Atomic(BATCH));
    }

    @State(Scope.Benchmark)
    public static class Sequence {
        private Installation installation;
        private IdClient client;
        private IdSequence ids;

        @Setup
        public void start() {
            installation = Installation.start("--max-batch", "" + BATCH, "--max-step", "" + BUFFER);
            installation.createTag("order", "--step", "" + BUFFER, "--max-step", "" + BUFFER);
            client = IdClient.connect(IdClientOptions.DEFAULTS.withServers(installation.url()));
            ids = client.prefetch("order", new PrefetchOptions(Duration.ofSeconds(1), BUFFER, BATCH));
        }

        @TearDown
        public void end() {
            client.close();
            installation.close();
        }
    }

    @Benchmark
    public long atomicLong(Counter counter) {
        return counter.counter.incrementAndGet();
    }

    @Benchmark
    public long segmentChainId(SegmentChain chain) {
        return chain.ids.generate();
    }

    @Benchmark
    public long idSequence(Sequence sequence) {
        return sequence.ids.next();
    }
}
