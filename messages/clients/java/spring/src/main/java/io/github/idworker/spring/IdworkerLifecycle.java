package io.github.idworker.spring;

import io.github.idworker.IdClient;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.SmartLifecycle;

/**
 * Suspends the client while the application context is stopped, so that two
 * copies of the process never use one buffer: Spring stops the context before a
 * checkpoint, and starts it after a restore.
 *
 * <p>A context that is being closed keeps the client, since beans may need IDs as
 * they are destroyed; the client is closed after them.
 */
final class IdworkerLifecycle implements SmartLifecycle {
    private final IdClient client;
    private final ConfigurableApplicationContext context;
    private volatile boolean running;
    private volatile boolean suspended;

    IdworkerLifecycle(IdClient client, ConfigurableApplicationContext context) {
        this.client = client;
        this.context = context;
    }

    @Override
    public void start() {
        if (suspended) {
            client.resume();
            suspended = false;
        }
        running = true;
    }

    /**
     * Called by Spring.
     *
     * @throws IllegalStateException if the client is on a connection of the
     *     application that is not closed; Spring logs it
     */
    @Override
    public void stop() {
        running = false;
        if (!context.isClosed()) {
            client.suspend();
            suspended = true;
        }
    }

    @Override
    public boolean isRunning() {
        return running;
    }

    /** Returns the lowest phase: it starts before, and stops after, all that may use IDs. */
    @Override
    public int getPhase() {
        return Integer.MIN_VALUE;
    }
}
