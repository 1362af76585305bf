import { setMaxListeners } from "node:events"
import { startupSnapshot } from "node:v8"
import { checkCallOptions, checkedPrefetch, show } from "./arguments.js"
import type { IdBatch } from "./batch.js"
import { onAbort, type Transient, textOf } from "./call.js"
import type { CallOptions } from "./client.js"
import { clock } from "./clock.js"
import {
  BadConfigError,
  BadCountError,
  BufferEmptyError,
  BusyError,
  CallTimeoutError,
  CancelledError,
  ClosedError,
  type ErrorDetails,
  IdworkerError,
  MalformedRequestError,
  type Reason,
} from "./errors.js"
import type { IdBuffer } from "./ids.js"
import type { Log } from "./log.js"
import { half, Pace } from "./pace.js"

/** Options of a prefetcher. */
export interface PrefetchOptions {
  /** How long the buffer lasts without a refill, in ms, 1 to 3,600,000; above 10 s acts as 10 s. Default: 1000. */
  runway?: number
  /** Bound of the IDs buffered and in flight, apart from the range in use, 1 to 10^9. Default: 1,000,000. */
  limit?: number
  /** The largest request, 1 to 10^9. Default: 10,000, the worker's default limit. */
  maxBatch?: number
}

/**
 * What a prefetcher needs of the client: a call for n IDs without a deadline,
 * whose header says that the IDs are buffered. It ends with the signal. It never
 * throws; its promise may fail with a retryable error if n is above 1, and then
 * smaller batches are requested.
 */
export type Fetch = (
  n: number,
  signal: AbortSignal,
  onTransient: (reason: Transient) => void,
) => Promise<IdBatch>

/** Enough requests in flight to hide the round trip, and few compared with what a worker parks. */
const mostRequests = 16

/** How old a buffered ID may be, and how often the age is checked, in ms. */
const mostAge = 60_000
const ageCheck = 1000

/** A range of buffered IDs that is not in use yet. */
interface Chunk {
  readonly first: bigint
  readonly size: number
  /** By the wall clock. */
  readonly arrived: number
  next: Chunk | undefined
}

/** Somebody who waits. */
interface Waiter {
  /** Ends the wait if what is buffered permits it. */
  wake(): void
  fail(error: unknown): void
}

/**
 * A buffer of IDs in this process, which requests more before it is empty. It
 * returns each ID once.
 *
 * IDs come in the order of replies, so they only tend to ascend. Those that are
 * buffered or in flight when the process ends are never used. A strict tag has no
 * prefetcher: {@link next} and {@link ready} fail with StrictTagError.
 *
 * A copy of the process would use the same IDs, so the buffer is dropped if it is
 * older than a minute, or newer than the wall clock. The clock is read once a
 * second and when a range of IDs begins. Do not clone a running process or its
 * virtual machine: both copies may take the same IDs for a second, and for a
 * minute if the clock shows no gap. A client is made after the process has
 * started: none can be made while a start-up snapshot (`node --build-snapshot`)
 * is built. Worker threads and processes of `node:cluster` share no memory: each
 * makes its own connection, client and prefetcher.
 *
 * Invariant: while somebody waits, a request is in flight.
 */
export class Prefetcher implements IdBuffer {
  readonly #subject: string
  readonly #fetch: Fetch
  readonly #timeout: number
  readonly #limit: number
  readonly #largestBatch: number
  readonly #onClose: (closed: Prefetcher) => void
  readonly #log: Log | undefined

  // The range in use: its next ID, how many are left, and how many there were.
  #nextId = 0n
  #left = 0
  #size = 0
  #arrived = 0

  // The ranges behind it, in the order of arrival.
  #stock: Chunk | undefined
  #lastOfStock: Chunk | undefined
  #stockIds = 0

  readonly #pace: Pace
  #used = 0 // IDs taken from the ranges before the one in use
  #ages = false // the timer runs

  readonly #requests = new Set<Promise<void>>()
  #requestedIds = 0
  #maxBatch: number // the largest that the workers are believed to allow
  #batch: number // 1 after a refused batch of snowflake IDs, then twice that after each success
  #failure: unknown // of the last request, if no retry can cure it
  #transient: Transient | undefined // why requests are unanswered

  readonly #waiters = new Set<Waiter>()
  #awaited = 0 // IDs
  #spokenFor = 0 // the number of IDs taken once all have been taken that `ready` announced
  readonly #end = new AbortController()

  /**
   * @param timeout the longest wait that has no time-out of its own, in ms
   * @internal
   */
  constructor(
    subject: string,
    fetch: Fetch,
    options: PrefetchOptions = {},
    timeout = 5000,
    onClose: (closed: Prefetcher) => void = () => {},
    log?: Log,
  ) {
    const { runway, limit, maxBatch } = checkedPrefetch(options)
    this.#limit = limit
    this.#largestBatch = maxBatch
    if (startupSnapshot.isBuildingSnapshot()) {
      throw new BadConfigError("a start-up snapshot is built, and all its copies would have the same buffer")
    }
    this.#maxBatch = this.#largestBatch
    this.#batch = this.#largestBatch
    this.#subject = subject
    this.#fetch = fetch
    this.#timeout = timeout
    this.#onClose = onClose
    this.#log = log
    setMaxListeners(0, this.#end.signal) // or Node takes the calls in flight for a leak
    this.#pace = new Pace(runway, this.#limit, clock.now())
  }

  /**
   * Returns a buffered ID at once. A function that a hook can call without `this`.
   *
   * @throws {BufferEmptyError} if none is buffered; a refill has begun, but no
   * reply is read before the caller returns to the event loop: await
   * {@link ready} before a loop of takes. Its cause is the error of the last
   * request, if it failed for good
   * @throws {ClosedError}
   */
  readonly take = (): bigint => {
    if (this.#left === 0) return this.#takeOfNextRange()
    const id = this.#nextId
    this.#nextId = id + 1n
    this.#left--
    return id
  }

  /**
   * Returns an ID: at once if one is buffered that {@link ready} has not announced
   * in this turn, whatever the options. Otherwise it waits, by default as long as
   * the client's calls.
   *
   * @throws {CallTimeoutError} with the reason why requests are unanswered
   * @throws {IdworkerError} as a call does
   */
  async next(options: CallOptions = {}): Promise<bigint> {
    checkCallOptions(options)
    if (this.#left > 0 && this.#spokenFor === 0) return this.take()
    this.#checkOpen()
    const attempt = (): bigint | undefined => (this.#announce(1) ? this.#takeBuffered() : undefined)
    const id = attempt()
    if (id === undefined) return this.#wait(1, attempt, options)
    this.#refill()
    return id
  }

  /**
   * Waits until n IDs are buffered: as many calls of {@link take} succeed in the
   * same turn of the event loop. Later, others may have taken them.
   *
   * @param n from 1 to the limit
   * @throws {BadCountError}
   * @throws {CallTimeoutError} with the reason why requests are unanswered
   * @throws {IdworkerError} as a call does
   */
  async ready(n: number, options: CallOptions = {}): Promise<void> {
    checkCallOptions(options)
    if (!Number.isInteger(n) || n < 1 || n > this.#limit) {
      throw this.#error(
        BadCountError,
        `ready(${show(n)}), allowed is an integer from 1 to the limit, ${this.#limit}`,
      )
    }
    this.#checkOpen()
    const attempt = (): true | undefined => {
      this.#dropIfOld()
      return this.#announce(n) || undefined
    }
    if (!attempt()) await this.#wait(n, attempt, options)
  }

  /**
   * Ends waits with {@link ClosedError}. Buffered IDs are never used. It resolves
   * when the requests in flight have ended; closing again does nothing more.
   */
  async close(): Promise<void> {
    if (!this.#isClosed) {
      this.#end.abort()
      this.#discard()
      this.#failWaiters(this.#closedError())
      this.#onClose(this)
    }
    await Promise.all(this.#requests)
  }

  /**
   * What a test can know of the buffer, in IDs.
   *
   * @internal
   */
  get _figures(): { buffered: number; inFlight: number; target: number; batch: number } {
    return {
      buffered: this.#buffered,
      inFlight: this.#requestedIds,
      target: this.#pace.target,
      batch: Math.min(this.#maxBatch, this.#batch),
    }
  }

  get #isClosed(): boolean {
    return this.#end.signal.aborted
  }

  get #buffered(): number {
    return this.#left + this.#stockIds
  }

  get #taken(): number {
    return this.#used + this.#size - this.#left
  }

  #takeOfNextRange(): bigint {
    this.#checkOpen()
    const id = this.#takeBuffered()
    this.#refill()
    if (id !== undefined) return id
    const why = this.#why
    const unanswered = why.reason === undefined ? "" : ` (${textOf(why.reason)})`
    const text = `no ID is buffered, await ready(n) before n takes${unanswered}`
    const empty = this.#error(BufferEmptyError, text, {
      ...why,
      ...(this.#failure === undefined ? {} : { cause: this.#failure }),
    })
    this.#log?.failed(this.#subject, empty)
    throw empty
  }

  /** Takes the next ID, if any. A range too old to begin empties the buffer. */
  #takeBuffered(): bigint | undefined {
    if (this.#left === 0) {
      const chunk = this.#stock
      if (chunk === undefined) return undefined
      if (!isFresh(chunk.arrived)) {
        this.#discard()
        return undefined
      }
      this.#used += this.#size
      this.#stock = chunk.next
      this.#stockIds -= chunk.size
      this.#nextId = chunk.first
      this.#left = this.#size = chunk.size
      this.#arrived = chunk.arrived
    }
    return this.take()
  }

  /**
   * Whether n IDs are buffered, apart from those announced to others in this turn:
   * their takes follow only when their promises settle.
   */
  #announce(n: number): boolean {
    const taken = this.#taken
    const spokenFor = Math.max(this.#spokenFor, taken)
    if (taken + this.#buffered - spokenFor < n) return false
    if (this.#spokenFor === 0) {
      clock.turn(() => {
        this.#spokenFor = 0
        this.#wakeWaiters()
      })
    }
    this.#spokenFor = spokenFor + n
    return true
  }

  /** Makes sure that a request is in flight, and waits for what `attempt` returns. */
  #wait<T>(n: number, attempt: () => T | undefined, options: CallOptions): Promise<T> {
    const { signal } = options
    return new Promise((resolve, reject) => {
      let ignoreSignal: (() => void) | undefined
      const cancel = (): void =>
        waiter.fail(this.#error(CancelledError, "cancelled", { ...this.#why, cause: signal?.reason }))
      const end = (): void => {
        this.#waiters.delete(waiter)
        this.#awaited -= n
        clock.stop(timer)
        ignoreSignal?.()
      }
      const waiter: Waiter = {
        wake: () => {
          const got = attempt()
          if (got === undefined) return
          end()
          resolve(got)
        },
        fail: (error) => {
          end()
          if (error instanceof IdworkerError) this.#log?.failed(this.#subject, error)
          reject(error)
        },
      }
      this.#waiters.add(waiter)
      this.#awaited += n
      const timer = clock.after(options.timeout ?? this.#timeout, () =>
        clock.turn(() => this.#waiters.has(waiter) && waiter.fail(this.#timeoutError())),
      )
      if (signal?.aborted) {
        cancel()
        return
      }
      if (signal !== undefined) ignoreSignal = onAbort(signal, cancel)
      this.#refill()
    })
  }

  #wakeWaiters(): void {
    for (const waiter of this.#waiters) waiter.wake()
    if (this.#waiters.size > 0) this.#refill()
  }

  #failWaiters(error: unknown): void {
    for (const waiter of this.#waiters) waiter.fail(error)
  }

  /** Starts requests if fewer IDs than half of the target are in stock and in flight. */
  #refill(): void {
    const have = this.#stockIds + this.#requestedIds
    const awaited = Math.min(this.#awaited, this.#limit)
    if (have >= half(this.#pace.target) && have >= awaited) return
    let missing = Math.max(this.#pace.update(clock.now(), this.#taken), awaited) - have
    const most = this.#failure === undefined ? mostRequests : 1
    while (missing > 0 && this.#requests.size < most) {
      const n = Math.min(missing, this.#maxBatch, this.#batch)
      missing -= n
      this.#request(n)
    }
  }

  #request(n: number): void {
    this.#requestedIds += n
    const end = (outcome: () => void): void => {
      this.#requests.delete(request)
      this.#requestedIds -= n
      if (!this.#isClosed) outcome()
    }
    const onTransient = (reason: Transient): void => {
      this.#transient = reason
    }
    const request: Promise<void> = this.#fetch(n, this.#end.signal, onTransient).then(
      (ids) => end(() => this.#arrive(ids, n)),
      (error) => end(() => this.#refused(error, n)),
    )
    this.#requests.add(request)
  }

  #arrive(ids: IdBatch, n: number): void {
    const arrived = clock.wall()
    for (const { first, last } of ids.ranges) {
      const chunk = { first, size: Number(last - first) + 1, arrived, next: undefined }
      if (this.#stock === undefined || this.#lastOfStock === undefined) this.#stock = chunk
      else this.#lastOfStock.next = chunk
      this.#lastOfStock = chunk
      this.#stockIds += chunk.size
    }
    if (n === this.#batch) this.#batch = Math.min(2 * n, this.#largestBatch)
    this.#failure = this.#transient = undefined
    this.#log?.succeeded(this.#subject)
    this.#startAgeTimer()
    for (const waiter of this.#waiters) waiter.wake()
    this.#refill()
  }

  #refused(error: unknown, n: number): void {
    if (n > 1 && error instanceof MalformedRequestError) {
      this.#maxBatch = Math.min(this.#maxBatch, Math.floor(n / 2)) // the workers allow smaller ones
    } else if (n > 1 && error instanceof IdworkerError && error.retryable) {
      // A batch may have more snowflake IDs than a worker makes ahead of its clock.
      this.#batch = 1
    } else {
      this.#failure = error
      // A request for one ID was refused: the batches were not too large.
      if (error instanceof MalformedRequestError) this.#maxBatch = this.#largestBatch
      this.#failWaiters(error)
      return // the next take that finds no ID requests again
    }
    this.#refill()
  }

  #startAgeTimer(): void {
    if (this.#ages || this.#buffered === 0) return
    this.#ages = true
    setTimeout(() => {
      this.#ages = false
      this.#dropIfOld()
      this.#startAgeTimer()
    }, ageCheck).unref()
  }

  /** Empties the buffer if its oldest ID is too old. */
  #dropIfOld(): void {
    const oldest = this.#left > 0 ? this.#arrived : this.#stock?.arrived
    if (oldest !== undefined && !isFresh(oldest)) this.#discard()
  }

  /** Empties the buffer, which was too large for its use. Requests in flight bring fresh IDs. */
  #discard(): void {
    this.#used = this.#taken
    this.#left = this.#size = 0
    this.#stock = this.#lastOfStock = undefined
    this.#stockIds = 0
    this.#pace.restart(clock.now(), this.#used)
  }

  #checkOpen(): void {
    if (this.#isClosed) throw this.#closedError()
  }

  #closedError(): ClosedError {
    return this.#error(ClosedError, "the prefetcher is closed")
  }

  #timeoutError(): CallTimeoutError {
    const { reason = "no_reply", cause } = this.#why
    const why = cause?.message ?? this.#about + textOf(reason)
    return new CallTimeoutError(`${why} (deadline exceeded)`, { reason, cause, subject: this.#subject })
  }

  /** Why requests are unanswered. */
  get #why(): { reason?: Reason; cause?: IdworkerError } {
    const why = this.#transient
    if (why === undefined) return {}
    if (typeof why === "string") return { reason: why }
    return { reason: why instanceof BusyError ? "busy" : "unavailable", cause: why }
  }

  get #about(): string {
    return `request ${this.#subject}: `
  }

  #error<E>(
    kind: new (text: string, details: ErrorDetails) => E,
    why: string,
    details: ErrorDetails = {},
  ): E {
    return new kind(this.#about + why, { ...details, subject: this.#subject })
  }
}

function isFresh(arrived: number): boolean {
  const age = clock.wall() - arrived
  return age >= 0 && age <= mostAge
}
