package io.github.idworker.benchmarks;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Runs the benchmarks, and prints a table with the ratios that the client shall
 * keep. Each is the median of the ratios of short rounds, in which the subject and
 * its baseline take turns: a busy machine disturbs both. Nothing fails for being
 * slow.
 *
 * <pre>mvn -q -Pbenchmarks -pl benchmarks -am verify -DskipTests</pre>
 */
public final class Benchmarks {
    private static final int ROUNDS = 3;
    private static final TimeValue ITERATION = TimeValue.seconds(1);
    private static final int WARMUPS = 3;
    private static final int ITERATIONS = 3;

    /** What an operation cost, by round. */
    private record Figures(List<Double> nanos, List<Double> bytes) {
        Figures() {
            this(new ArrayList<>(), new ArrayList<>());
        }
    }

    private final Map<String, Figures> figures = new LinkedHashMap<>();

    private Benchmarks() {}

    /** Runs all benchmarks. */
    public static void main(String[] arguments) throws RunnerException {
        Benchmarks benchmarks = new Benchmarks();
        for (int round = 1; round <= ROUNDS; round++) {
            System.out.println("round " + round + " of " + ROUNDS);
            for (int threads : new int[] {1, 8}) {
                benchmarks.run(Takes.class, threads);
            }
            benchmarks.run(Calls.class, 1);
        }
        benchmarks.print();
    }

    private void run(Class<?> benchmark, int threads) throws RunnerException {
        Iterable<RunResult> results = new Runner(new OptionsBuilder()
                .include(benchmark.getName() + "\\.")
                .threads(threads)
                .forks(1)
                .warmupIterations(WARMUPS).warmupTime(ITERATION)
                .measurementIterations(ITERATIONS).measurementTime(ITERATION)
                .addProfiler(GCProfiler.class)
                .verbosity(VerboseMode.SILENT)
                .shouldFailOnError(true)
                .build()).run();
        for (RunResult result : results) {
            Figures of = figures.computeIfAbsent(name(result.getPrimaryResult().getLabel(), threads),
                    unused -> new Figures());
            of.nanos.add(result.getPrimaryResult().getScore());
            of.bytes.add(result.getSecondaryResults().get("gc.alloc.rate.norm").getScore());
        }
    }

    private static String name(String benchmark, int threads) {
        return benchmark + (threads == 1 ? ", 1 thread" : ", " + threads + " threads");
    }

    private void print() {
        System.out.printf(Locale.ROOT, "%n%-28s %12s %10s%n", "operation", "ns", "B");
        figures.forEach((name, of) -> System.out.printf(Locale.ROOT, "%-28s %12.1f %10.1f%n", name, median(of.nanos),
                median(of.bytes)));
        System.out.printf(Locale.ROOT, "%n%-48s %6s %s%n", "ratio", "", "wanted");
        for (int threads : new int[] {1, 8}) {
            ratio("idSequence", "segmentChainId", threads, "<= 1");
            ratio("idSequence", "atomicLong", threads, "<= 4");
        }
        ratio("bareRequest", "next", 1, ">= 0.9");
    }

    private void ratio(String subject, String baseline, int threads, String wanted) {
        List<Double> above = figures.get(name(subject, threads)).nanos;
        List<Double> below = figures.get(name(baseline, threads)).nanos;
        List<Double> ratios = new ArrayList<>();
        for (int round = 0; round < ROUNDS; round++) {
            ratios.add(above.get(round) / below.get(round));
        }
        System.out.printf(Locale.ROOT, "%-48s %6.2f %s%n", name(subject + " / " + baseline, threads), median(ratios),
                wanted);
    }

    private static double median(List<Double> values) {
        List<Double> sorted = new ArrayList<>(values);
        Collections.sort(sorted);
        return sorted.get(sorted.size() / 2);
    }
}
