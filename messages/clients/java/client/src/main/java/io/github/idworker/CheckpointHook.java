package io.github.idworker;

import org.crac.Context;
import org.crac.Core;
import org.crac.Resource;

/** Suspends a client at a checkpoint of the process. Only this class needs {@code org.crac}. */
final class CheckpointHook implements Resource {
    private final IdClient client;

    private CheckpointHook(IdClient client) {
        this.client = client;
    }

    /** Registers a client; the framework forgets it with the result, to which it has a weak reference. */
    static Object register(IdClient client) {
        CheckpointHook hook = new CheckpointHook(client);
        Core.getGlobalContext().register(hook);
        return hook;
    }

    @Override
    public void beforeCheckpoint(Context<? extends Resource> context) {
        client.suspend();
    }

    @Override
    public void afterRestore(Context<? extends Resource> context) {
        client.resume();
    }
}
