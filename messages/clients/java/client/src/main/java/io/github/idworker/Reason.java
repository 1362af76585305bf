package io.github.idworker;

/** Why a call repeated its requests until its time was over. */
public enum Reason {
    /** Code 429: the workers have too many requests. */
    BUSY,
    /** Code 503: the worker has no IDs at the moment. */
    UNAVAILABLE,
    /** Requests were sent, and nothing replied. */
    NO_REPLY,
    /**
     * The NATS server replied that nothing answers such requests: no worker runs
     * with this prefix, or, for snowflake IDs, none has a worker ID.
     */
    NO_RESPONDERS,
    /** The connection was lost, so nothing could be sent. */
    DISCONNECTED
}
