import type { IdBatch } from "./batch.js"
import type { CallOptions } from "./client.js"
import type { IdworkerError } from "./errors.js"

/** Options of a prefetcher. */
export interface PrefetchOptions {
  /** How long the buffer lasts without a refill, in ms, 1 to 3,600,000; above 10 s acts as 10 s. Default: 1000. */
  runway?: number
  /** Bound of buffered IDs, 1 to 10^9. Default: 1,000,000. */
  limit?: number
  /** The largest request, 1 to 10^9. Default: 10,000, the worker's default limit. */
  maxBatch?: number
}

/**
 * What a prefetcher needs of the client: a call for n IDs without a deadline,
 * whose header says that the IDs are buffered. It ends with the signal.
 */
export type Fetch = (
  n: number,
  signal: AbortSignal,
  onTransient: (reason: IdworkerError | "no_reply" | "no_responders" | "disconnected") => void,
) => Promise<IdBatch>

/** A buffer of IDs in this process, which refills itself ahead of its use. */
export class Prefetcher {
  /** @internal */
  constructor(
    readonly _subject: string,
    readonly _fetch: Fetch,
    readonly _options: PrefetchOptions,
  ) {
    throw new Error("not yet")
  }

  /**
   * Returns a buffered ID at once. A function that a hook can call without `this`.
   *
   * @throws {BufferEmptyError} if none is buffered; a refill has begun, but no
   * reply is read before the caller returns to the event loop: await
   * {@link ready} before a loop of takes
   */
  readonly take: () => bigint = () => {
    throw new Error("not yet")
  }

  /** Returns an ID, buffered or not. */
  next(_options: CallOptions = {}): Promise<bigint> {
    throw new Error("not yet")
  }

  /** Waits until n IDs are buffered, at most the limit. It reserves none of them. */
  ready(_n: number, _options: CallOptions = {}): Promise<void> {
    throw new Error("not yet")
  }

  /** Ends waits with {@link ClosedError}. Buffered IDs are never used. */
  close(): Promise<void> {
    throw new Error("not yet")
  }
}
