import type { IdBatch } from "./batch.js"
import type { CallOptions } from "./client.js"
import type { PrefetchOptions } from "./prefetch.js"

/**
 * What the methods of an {@link Idworker} are. An application that declares this type, and not the class,
 * can be tested with the client in memory of `@idworker/client/testing`.
 */
export interface Ids {
  /** As {@link Idworker.next}. */
  next(tag: string, options?: CallOptions): Promise<bigint>
  /** As {@link Idworker.nextN}. */
  nextN(tag: string, n: number, options?: CallOptions): Promise<IdBatch>
  /** As {@link Idworker.snowflake}. */
  snowflake(options?: CallOptions): Promise<bigint>
  /** As {@link Idworker.snowflakeN}. */
  snowflakeN(n: number, options?: CallOptions): Promise<IdBatch>
  /** As {@link Idworker.prefetch}. */
  prefetch(tag: string, options?: PrefetchOptions): IdBuffer
  /** As {@link Idworker.prefetchSnowflake}. */
  prefetchSnowflake(options?: PrefetchOptions): IdBuffer
  /** As {@link Idworker.close}. */
  close(): Promise<void>
}

/** What the methods of a {@link Prefetcher} are. */
export interface IdBuffer {
  /** As {@link Prefetcher.take}: it needs no `this`. */
  readonly take: () => bigint
  /** As {@link Prefetcher.next}. */
  next(options?: CallOptions): Promise<bigint>
  /** As {@link Prefetcher.ready}. */
  ready(n: number, options?: CallOptions): Promise<void>
  /** As {@link Prefetcher.close}. */
  close(): Promise<void>
}
