package io.github.idworker;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Time that a test moves: tasks run in the test's thread. Thread-safe. */
final class VirtualTime implements Environment.Timers {
    private record Task(long at, long order, Runnable run) {}

    private final List<Task> tasks = new ArrayList<>();
    private long now = 1;
    private long added;
    private volatile long wall = 1_000_000;
    private volatile double random;

    /** The environment of this time, with its wall clock and random number. */
    Environment environment() {
        return new Environment(this, () -> wall, () -> random);
    }

    void setRandom(double number) {
        random = number;
    }

    /** Moves the wall clock alone, as a copy of the process finds it moved. */
    void moveWall(long millis) {
        wall += millis;
    }

    @Override
    public synchronized long now() {
        return now;
    }

    /** Milliseconds since the start. */
    double millis() {
        return (now() - 1) / (double) TimeUnit.MILLISECONDS.toNanos(1);
    }

    @Override
    public synchronized Runnable after(long nanos, Runnable run) {
        Task task = new Task(now + nanos, added++, run);
        tasks.add(task);
        return () -> drop(task);
    }

    private synchronized void drop(Task task) {
        tasks.remove(task);
    }

    @Override
    public synchronized void end() {
        tasks.clear();
    }

    /** Runs what is due now. */
    void run() {
        advance(0);
    }

    /** Lets so many milliseconds pass, for both clocks, and runs what comes due. */
    void advance(long millis) {
        long end = now() + TimeUnit.MILLISECONDS.toNanos(millis);
        wall += millis;
        while (runFirst(end)) {
            // the next may be new
        }
        synchronized (this) {
            now = end;
        }
    }

    /** Goes to the next task and runs it; returns whether there was one. */
    boolean runNext() {
        return runFirst(Long.MAX_VALUE);
    }

    private boolean runFirst(long end) {
        Task first;
        synchronized (this) {
            first = tasks.stream().min(Comparator.comparingLong(Task::at).thenComparingLong(Task::order)).orElse(null);
            if (first == null || first.at > end) {
                return false;
            }
            tasks.remove(first);
            now = Math.max(now, first.at);
        }
        first.run.run();
        return true;
    }
}
