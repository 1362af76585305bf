package io.github.idworker;

import com.fasterxml.jackson.annotation.JsonProperty;
import io.github.idworker.Driver.DriverException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The driver's operations without a server. */
final class DriverOffline {
    private record PaceSteps(@JsonProperty("runway_ms") long runwayMs, long limit, List<long[]> steps) {}

    private record Targets(List<Long> targets) {}

    private record Schedule(List<String> events) {}

    private record Waits(List<double[]> waits) {}

    DriverOffline(Driver driver) {
        driver.on("pace", PaceSteps.class, DriverOffline::targets);
        driver.on("schedule", Schedule.class, f -> waits(f.events));
    }

    private static Targets targets(PaceSteps f) {
        long now = 0;
        long taken = 0;
        Pace pace = Prefetcher.pace(new PrefetchOptions(Duration.ofMillis(f.runwayMs), f.limit, 1), now);
        List<Long> targets = new ArrayList<>();
        for (long[] step : f.steps) {
            now += TimeUnit.MILLISECONDS.toNanos(step[0]);
            taken += step[1];
            targets.add(pace.update(now, taken));
        }
        return new Targets(targets);
    }

    /** The waits between events, with the least and the greatest random value. */
    private static Waits waits(List<String> events) {
        List<Double> shortest = new Meeting(events).run(0);
        List<Double> longest = new Meeting(events).run(1);
        List<double[]> waits = new ArrayList<>();
        for (int i = 1; i < events.size(); i++) {
            waits.add(new double[] {shortest.get(i) - shortest.get(i - 1), longest.get(i) - longest.get(i - 1)});
        }
        return new Waits(waits);
    }

    /** A call that meets events, in virtual time. */
    private static final class Meeting implements Transport {
        private final List<String> events;
        private final List<Double> met = new ArrayList<>(); // when, in ms
        private final VirtualTime time = new VirtualTime();

        Meeting(List<String> events) {
            this.events = events;
        }

        List<Double> run(double random) {
            time.setRandom(random);
            List<Outcome> ended = new ArrayList<>();
            new Call(Call.Request.of("ids.segment.order", 1, null), this, time.environment(), Call.ENDLESS,
                    ended::add).start();
            while (ended.isEmpty()) {
                time.runNext();
            }
            ended.get(0).get();
            return met;
        }

        @Override
        public @Nullable Failure send(Call call) {
            String event = events.get(met.size());
            met.add(time.millis());
            call.setInbox(this);
            Outcome reply = switch (event) {
                case "silent", "disconnected" -> null;
                case "busy" -> Outcome.of(Failure.reply(429, "too many"));
                case "unavailable" -> Outcome.of(Failure.reply(503, "no IDs"));
                case "no_responders" -> Outcome.of(Failure.NO_RESPONDERS);
                case "ids" -> Outcome.of(List.of(new IdBatch.Range(7, 7)));
                default -> throw new DriverException("the event " + event);
            };
            if (reply != null) {
                time.after(0, () -> call.accept(this, reply));
            }
            return event.equals("disconnected") ? Failure.DISCONNECTED : null;
        }

        @Override
        public long admit(Call call) {
            return System.nanoTime();
        }

        @Override
        public void forget(Call call) {}

        @Override
        public @Nullable Failure refusal(Call call) {
            return null;
        }

        @Override
        public void renewInbox() {}

        @Override
        public boolean hasUnread() {
            return false;
        }
    }
}
