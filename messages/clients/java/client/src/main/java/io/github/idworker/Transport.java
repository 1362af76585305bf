package io.github.idworker;

import org.jspecify.annotations.Nullable;

/** What a {@link Call} needs of NATS. */
interface Transport {
    /**
     * Delivers replies to the call until it is forgotten. Returns the time of {@link
     * System#nanoTime} since when refusals are the call's own.
     */
    long admit(Call call);

    /**
     * Sends the call's request once more. Returns null, or why it sent none: a
     * transient failure, or one that ends the call.
     */
    @Nullable Failure send(Call call);

    /** Returns the server's refusal of the call's requests since it began, or of its inbox. */
    @Nullable Failure refusal(Call call);

    /** Asks again for the inbox, after silence, if the server may have refused it. */
    void renewInbox();

    /** Whether replies have arrived that no call has read yet. */
    boolean hasUnread();

    /** Drops all further replies to the call. */
    void forget(Call call);
}
