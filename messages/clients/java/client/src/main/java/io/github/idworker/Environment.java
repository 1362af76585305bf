package io.github.idworker;

import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;

/**
 * Time and chance, which tests replace.
 *
 * @param wall the wall clock in milliseconds, by which buffered IDs age
 * @param random a number from 0 up to 1
 */
record Environment(Timers timers, LongSupplier wall, DoubleSupplier random) {
    /** Runs tasks later. */
    interface Timers {
        /** Nanoseconds since some moment, of which only differences count. */
        long now();

        /** Runs a task in so many nanoseconds, in a thread that must not be blocked. */
        Runnable after(long nanos, Runnable task);

        /** Drops all tasks, also those that come later. */
        void end();
    }

    static Environment real() {
        return new Environment(new SystemTimers(), System::currentTimeMillis,
                () -> ThreadLocalRandom.current().nextDouble());
    }

    /** Timers of one daemon thread, which ends when it had nothing to do for a while. */
    private static final class SystemTimers implements Timers {
        private static final long IDLE_SECONDS = 10;

        private final ScheduledThreadPoolExecutor executor;

        SystemTimers() {
            executor = new ScheduledThreadPoolExecutor(1, task -> {
                Thread thread = new Thread(task, "idworker-timers");
                thread.setDaemon(true);
                return thread;
            }, new ThreadPoolExecutor.DiscardPolicy());
            executor.setRemoveOnCancelPolicy(true);
            executor.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
            executor.setKeepAliveTime(IDLE_SECONDS, TimeUnit.SECONDS);
            executor.allowCoreThreadTimeOut(true);
        }

        @Override
        public long now() {
            return System.nanoTime();
        }

        @Override
        public Runnable after(long nanos, Runnable task) {
            Future<?> scheduled = executor.schedule(task, nanos, TimeUnit.NANOSECONDS);
            return () -> scheduled.cancel(false);
        }

        @Override
        public void end() {
            executor.shutdown();
        }
    }
}
