import type { NatsConnection } from "@nats-io/nats-core"
import {
  checkCallOptions,
  checkCount,
  checkLogger,
  checkOptions,
  checkPrefix,
  checkTag,
  checkTimeout,
  checkTraceparent,
  isTraceparent,
  show,
} from "./arguments.js"
import type { IdBatch } from "./batch.js"
import { Call, Link } from "./call.js"
import { clock } from "./clock.js"
import { Coalescer } from "./coalesce.js"
import { BadConfigError } from "./errors.js"
import type { Ids } from "./ids.js"
import { Log, type Logger, stderrLogger } from "./log.js"
import { type Fetch, Prefetcher, type PrefetchOptions } from "./prefetch.js"

/** Options of an {@link Idworker}. */
export interface IdworkerOptions {
  /** First token of the installation's subjects: `a-z 0-9 _ -`, 1 to 32 bytes. Default: `ids`. */
  prefix?: string | undefined
  /** The longest call, in ms, above 0, at most 2^31−1. More than the workers' `--wait`, 2 s, is best. Default: 5000. */
  timeout?: number | undefined
  /**
   * Gives the W3C `traceparent` of the current span, which requests carry into the
   * workers' logs. Each call asks once, as it begins. A value is 1 to 256 visible
   * ASCII characters; any other is not sent, nor is one if the function throws.
   * Joined calls carry the first one's, and prefetchers none. Default: none.
   */
  traceparent?: (() => string | undefined) | undefined
  /**
   * Where the client reports outages: `ID requests fail` with the first call for a subject that failed
   * because no worker answered in time, `ID requests succeed again`, `NATS connection lost` and
   * `NATS connection restored`. Default: each event is a line on stderr.
   */
  log?: Logger | undefined
}

/** Options of a call. */
export interface CallOptions {
  /** The longest call, in ms, above 0, at most 2^31−1. Default: the client's. */
  timeout?: number | undefined
  /** Ends the call with {@link CancelledError}. */
  signal?: AbortSignal | undefined
}

/**
 * A client of idworker on a NATS connection, which it never closes.
 *
 * A call repeats its request while no worker replies with IDs: after silence, if
 * the workers are busy, have no IDs or are missing, and while the connection is
 * lost. It ends with IDs, with an error that no retry cures, or after its
 * time-out. IDs whose reply comes too late are lost: a gap, never a duplicate.
 *
 * Concurrent calls of {@link Idworker.next} for a tag travel together: a call
 * sends its request at once, and those that come before its reply join into one
 * request, for up to 256 IDs. The same holds for {@link Idworker.snowflake}.
 *
 * All methods reject with an {@link IdworkerError}: {@link BadArgumentError} if
 * nothing was sent; {@link ErrorReplyError} if a worker refused;
 * {@link BadReplyError}, {@link PermissionDeniedError},
 * {@link ConnectionEndedError} and {@link ClosedError} at once;
 * {@link CallTimeoutError} and {@link CancelledError} with the reason why the call
 * was still waiting.
 */
export class Idworker implements Ids {
  readonly #link: Link
  readonly #log: Log
  readonly #coalescer: Coalescer
  readonly #prefix: string
  readonly #timeout: number
  readonly #traceparent: (() => string | undefined) | undefined
  readonly #prefetchers = new Set<Prefetcher>()

  /**
   * Sends nothing. Set `maxReconnectAttempts: -1` on the connection: nats-core
   * closes it after 10 attempts otherwise.
   *
   * @throws {BadPrefixError} if the prefix is malformed
   * @throws {BadConfigError} if the connection or another option is
   */
  constructor(connection: NatsConnection, options: IdworkerOptions = {}) {
    if (typeof connection?.publish !== "function" || typeof connection.status !== "function") {
      throw new BadConfigError(
        `bad connection: ${show(connection)}, allowed is one of @nats-io/nats-core, as await connect() returns`,
      )
    }
    checkOptions(options, ["prefix", "timeout", "traceparent", "log"])
    const { prefix = "ids", timeout = 5000, traceparent, log = stderrLogger } = options
    checkPrefix(prefix)
    checkTimeout(timeout)
    checkTraceparent(traceparent)
    checkLogger(log)
    this.#prefix = prefix
    this.#timeout = timeout
    this.#traceparent = traceparent
    this.#log = new Log(log, clock)
    this.#link = new Link(connection, clock, this.#log)
    this.#coalescer = new Coalescer(this.#link)
  }

  /** Returns a new ID of a tag, from 1 to 2^63−1. */
  next(tag: string, options?: CallOptions): Promise<bigint> {
    return this.#one(() => this.#segment(tag), options)
  }

  /**
   * Returns n new IDs of a tag. n is an integer of at least 1; the workers' limit
   * is 10,000 by default.
   */
  nextN(tag: string, n: number, options?: CallOptions): Promise<IdBatch> {
    return this.#many(() => this.#segment(tag), n, options)
  }

  /** Returns a new snowflake ID, from 1 to 2^63−1. */
  snowflake(options?: CallOptions): Promise<bigint> {
    return this.#one(() => this.#snowflakes(), options)
  }

  /** Returns n new snowflake IDs. n as for {@link Idworker.nextN}. */
  snowflakeN(n: number, options?: CallOptions): Promise<IdBatch> {
    return this.#many(() => this.#snowflakes(), n, options)
  }

  /**
   * Makes a buffer of a tag's IDs. It requests nothing before its first use.
   *
   * @throws {BadTagError} if the tag is malformed
   * @throws {BadConfigError} if an option is out of its bounds
   */
  prefetch(tag: string, options: PrefetchOptions = {}): Prefetcher {
    return this.#prefetcher(this.#segment(tag), options, false)
  }

  /**
   * Makes a buffer of snowflake IDs. It requests nothing before its first use.
   *
   * @throws {BadConfigError} if an option is out of its bounds
   */
  prefetchSnowflake(options: PrefetchOptions = {}): Prefetcher {
    return this.#prefetcher(this.#snowflakes(), options, true)
  }

  /**
   * Ends all calls and prefetchers with {@link ClosedError}. The connection stays.
   * Closing again does nothing.
   */
  async close(): Promise<void> {
    const prefetchers = [...this.#prefetchers]
    this.#link.close()
    await Promise.all(prefetchers.map((prefetcher) => prefetcher.close()))
  }

  #segment(tag: string): string {
    checkTag(tag)
    return `${this.#prefix}.segment.${tag}`
  }

  #snowflakes(): string {
    return `${this.#prefix}.snowflake`
  }

  /** Makes a call for one ID. What the executor throws rejects the promise. */
  #one(subject: () => string, options: CallOptions | undefined): Promise<bigint> {
    return new Promise((resolve, reject) => {
      const to = subject()
      const { deadline, signal } = this.#limits(options)
      const traceparent = this.#currentTrace()
      this.#coalescer.next({
        subject: to,
        deadline,
        signal,
        traceparent,
        resolve: (id) => {
          this.#log.succeeded(to)
          resolve(id)
        },
        reject: (error) => {
          this.#log.failed(to, error)
          reject(error)
        },
      })
    })
  }

  #many(subject: () => string, n: number, options: CallOptions | undefined): Promise<IdBatch> {
    return new Promise((resolve, reject) => {
      const to = subject()
      checkCount(n)
      const { deadline, signal } = this.#limits(options)
      const request = { subject: to, n, traceparent: this.#currentTrace() }
      new Call(this.#link, request, deadline, {
        signal,
        served: (ids) => {
          this.#log.succeeded(to)
          resolve(ids)
        },
        failed: (error) => {
          this.#log.failed(to, error)
          reject(error)
        },
      }).start()
    })
  }

  /** What ends a call before its reply. */
  #limits(options: CallOptions | undefined): { deadline: number; signal: AbortSignal | undefined } {
    const now = this.#link.clock.now()
    if (options === undefined) return { deadline: now + this.#timeout, signal: undefined }
    checkCallOptions(options)
    const { timeout = this.#timeout, signal } = options
    return { deadline: now + timeout, signal }
  }

  /** The value of the caller's context. A trace must not cost an ID, so what cannot be sent is left out. */
  #currentTrace(): string | undefined {
    try {
      const value = this.#traceparent?.()
      return isTraceparent(value) ? value : undefined
    } catch {
      return undefined
    }
  }

  #prefetcher(subject: string, options: PrefetchOptions, snowflakes: boolean): Prefetcher {
    // A worker refuses a batch of snowflake IDs for as long as it reaches too far
    // ahead of the clock. So such a call does not go on, and the next asks for fewer.
    const fetch: Fetch = (n, signal, transient) =>
      new Promise((served, failed) => {
        const request = { subject, n, prefetched: true, hasty: snowflakes && n > 1 }
        new Call(this.#link, request, Number.POSITIVE_INFINITY, { signal, served, failed, transient }).start()
      })
    const remove = (closed: Prefetcher) => this.#prefetchers.delete(closed)
    const made = new Prefetcher(subject, fetch, options, this.#timeout, remove, this.#log)
    this.#prefetchers.add(made)
    return made
  }
}
