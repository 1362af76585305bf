package org.springframework.context.support;

import org.springframework.context.ConfigurableApplicationContext;

/**
 * Calls what Spring's own resource of CRaC calls before a checkpoint and after a
 * restore; only this package may. A real checkpoint needs a JVM that can make one.
 */
public final class Checkpoint {
    private Checkpoint() {}

    /** Stops the context as before a checkpoint. */
    public static void before(ConfigurableApplicationContext context) {
        processor(context).stopForRestart();
    }

    /** Starts the context as after a restore. */
    public static void after(ConfigurableApplicationContext context) {
        processor(context).restartAfterStop();
    }

    private static DefaultLifecycleProcessor processor(ConfigurableApplicationContext context) {
        return context.getBean(DefaultLifecycleProcessor.class);
    }
}
