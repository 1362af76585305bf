package io.github.idworker.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.idworker.IdClient;
import io.github.idworker.RowIds;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.SmartLifecycle;

/** The client sleeps at a checkpoint only, and while no bean can need an ID. */
class LifecycleTest {
    private final FakeClient client = new FakeClient(1);
    private final ApplicationContextRunner application = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(IdworkerAutoConfiguration.class))
            .withBean(IdClient.class, () -> client)
            .withBean(Worker.class);

    /** Takes IDs as it starts, as it stops, and as it is destroyed, in the lowest phase but one. */
    static final class Worker implements SmartLifecycle, DisposableBean {
        private final RowIds ids;
        private boolean running;

        Worker(RowIds ids) {
            this.ids = ids;
        }

        @Override
        public void start() {
            ids.next("start");
            running = true;
        }

        @Override
        public void stop() {
            ids.next("stop");
            running = false;
        }

        @Override
        public void destroy() {
            ids.next("destroy");
        }

        @Override
        public boolean isRunning() {
            return running;
        }

        @Override
        public int getPhase() {
            return Integer.MIN_VALUE + 1;
        }
    }

    @Test
    void aCheckpointSuspendsTheClientAfterAllThatUsesIds() {
        application.run(context -> {
            context.stop();
            assertEquals(List.of("start", "stop", "suspend"), events());
            context.start();
            assertEquals(List.of("start", "stop", "suspend", "resume", "start"), events());
            context.stop();
            context.start();
        });
        assertEquals(
                List.of("start", "stop", "suspend", "resume", "start", "stop", "suspend", "resume", "start", "stop",
                        "destroy", "close"),
                events());
    }

    @Test
    void anEndLeavesTheClientToBeansThatAreDestroyed() {
        application.run(context -> {});
        assertEquals(List.of("start", "stop", "destroy", "close"), events());
    }

    private List<String> events() {
        return client.events.stream().filter(event -> !event.startsWith("prefetch")).toList();
    }
}
