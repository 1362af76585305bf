import type { NatsConnection } from "@nats-io/nats-core"
import type { IdBatch } from "./batch.js"
import type { Prefetcher, PrefetchOptions } from "./prefetch.js"

/** Options of an {@link Idworker}. */
export interface IdworkerOptions {
  /** First tokens of the installation's subjects. Default: `ids`. */
  prefix?: string
  /** The longest call, in ms, above 0. Default: 5000. */
  timeout?: number
}

/** Options of a call. */
export interface CallOptions {
  /** The longest call, in ms, above 0. Default: the client's. */
  timeout?: number
  /** Ends the call with {@link CancelledError}. */
  signal?: AbortSignal
}

/** A client of idworker on a NATS connection, which it never closes. */
export class Idworker {
  constructor(_connection: NatsConnection, _options: IdworkerOptions = {}) {
    throw new Error("not yet")
  }

  /** Returns a new ID of a tag, from 1 to 2^63−1. */
  next(_tag: string, _options: CallOptions = {}): Promise<bigint> {
    throw new Error("not yet")
  }

  /** Returns n new IDs of a tag. The worker's limit is 10,000 by default. */
  nextN(_tag: string, _n: number, _options: CallOptions = {}): Promise<IdBatch> {
    throw new Error("not yet")
  }

  /** Returns a new snowflake ID. */
  snowflake(_options: CallOptions = {}): Promise<bigint> {
    throw new Error("not yet")
  }

  /** Returns n new snowflake IDs. */
  snowflakeN(_n: number, _options: CallOptions = {}): Promise<IdBatch> {
    throw new Error("not yet")
  }

  /** Makes a buffer of a tag's IDs. It requests nothing before its first use. */
  prefetch(_tag: string, _options: PrefetchOptions = {}): Prefetcher {
    throw new Error("not yet")
  }

  /** Makes a buffer of snowflake IDs. */
  prefetchSnowflake(_options: PrefetchOptions = {}): Prefetcher {
    throw new Error("not yet")
  }

  /** Ends all calls and prefetchers with {@link ClosedError}. The connection stays. */
  close(): Promise<void> {
    throw new Error("not yet")
  }
}
