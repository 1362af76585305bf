import type { IdBatch } from "./batch.js"
import {
  Call,
  type Caller,
  cancelledError,
  firstTry,
  type Link,
  onAbort,
  type Progress,
  timeoutError,
} from "./call.js"
import type { Clock } from "./clock.js"
import { ExhaustedError, type IdworkerError, MalformedRequestError } from "./errors.js"

/** The most calls in a batch. More gain little, and a lost reply would lose more IDs. */
const mostJoined = 256

// Times are in ms.

/** How long a batch waits for the token: a lost request delays the next calls by no more. */
const longestGathering = 1

/** After a request that takes longer, the next batch does not wait: it would cost more than it saves. */
const distant = 5

/**
 * How long a batch repeats its request while workers are silent: longer than a
 * store takes to grant IDs of a strict tag, and shorter than callers wait.
 */
const longestTogether = 500

/** How long a refusal of a batch because of its size is remembered. */
const limitLasts = 60_000

/** A call for one ID. */
export interface Single {
  readonly subject: string
  /** By the link's clock. */
  readonly deadline: number
  readonly signal: AbortSignal | undefined
  readonly traceparent?: string | undefined
  readonly resolve: (id: bigint) => void
  readonly reject: (error: IdworkerError) => void
}

/**
 * Joins concurrent calls for one ID of a subject into requests for many.
 *
 * Each subject has a token. A call that finds it free sends its request alone,
 * at once. Calls that come before the token is back gather in a batch, which
 * becomes the next request. No call joins a request that was sent: a strict
 * tag's ID must be higher than all IDs returned before the call began.
 *
 * The token comes back after the first try, so no retry delays other calls. A
 * batch goes on together only while workers are silent; any other trouble sends
 * its calls on alone, because IDs may be left for some of them.
 */
export class Coalescer {
  readonly link: Link
  readonly #lanes = new Map<string, Lane>() // by subject, while its token is out
  #limit = mostJoined
  #limited = 0 // when workers lowered the limit

  constructor(link: Link) {
    this.link = link
  }

  /** Makes a call. */
  next(single: Single): void {
    const { subject, signal } = single
    const limit = this.#currentLimit()
    const lane = this.#lanes.get(subject)
    if (signal?.aborted) {
      single.reject(cancelledError({ subject, tries: 0, reason: undefined }, signal.reason))
    } else if (limit === 1) {
      callAlone(this.link, single)
    } else if (lane !== undefined) {
      lane.join(single, limit)
    } else {
      const made = new Lane(this, subject)
      this.#lanes.set(subject, made)
      made.sendFirst(single)
    }
  }

  /** Keeps batches within the limit of workers that refused one. */
  lowerLimit(limit: number): void {
    this.#limit = Math.min(this.#limit, limit)
    this.#limited = this.link.clock.now()
  }

  /** Removes a lane whose token is back. */
  remove(lane: Lane): void {
    this.#lanes.delete(lane.subject)
  }

  #currentLimit(): number {
    if (this.#limit < mostJoined && this.link.clock.now() - this.#limited > limitLasts) {
      this.#limit = mostJoined
    }
    return this.#limit
  }
}

/** The requests for a subject, from when its token is taken until it is back. */
class Lane {
  readonly subject: string
  readonly coalescer: Coalescer
  readonly #clock: Clock
  #taken = 0 // when the token was taken
  #took = 0 // how long the token is out, as release estimates
  #gathering: Batch | undefined

  constructor(coalescer: Coalescer, subject: string) {
    this.coalescer = coalescer
    this.subject = subject
    this.#clock = coalescer.link.clock
  }

  /** Makes the call that has the token. */
  sendFirst(single: Single): void {
    this.#taken = this.#clock.now()
    let hasToken = true
    const release = () => {
      if (hasToken) this.release()
      hasToken = false
    }
    callAlone(this.coalescer.link, {
      ...single,
      goesOn: release,
      resolve: (id) => {
        release()
        single.resolve(id)
      },
      reject: (error) => {
        release()
        single.reject(error)
      },
    })
  }

  /** Adds a call to the batch that gathers. */
  join(single: Single, limit: number): void {
    this.#gathering ??= new Batch(this, this.#took > distant ? 0 : longestGathering)
    if (this.#gathering.add(single) >= limit) this.seal(this.#gathering)
  }

  /** Sends a batch, although the token is out, if it still gathers. */
  seal(batch: Batch): void {
    if (this.#gathering !== batch) return
    this.#gathering = undefined
    batch.send(false)
  }

  /** Drops a batch that all calls have left. */
  drop(batch: Batch): void {
    if (this.#gathering === batch) this.#gathering = undefined
  }

  /** Gives the token to the batch that gathers. One slow request does not make a worker distant. */
  release(): void {
    const now = this.#clock.now()
    this.#took = Math.min(now - this.#taken, Math.max(2 * this.#took, longestGathering))
    this.#taken = now
    const batch = this.#gathering
    this.#gathering = undefined
    if (batch !== undefined) batch.send(true)
    else this.coalescer.remove(this)
  }
}

/** Calls that travel as one request. */
class Batch implements Caller {
  readonly lane: Lane
  #members: Member[] = []
  #left = 0 // members that left since the request was sent
  #timer: unknown
  #call: Call | undefined // undefined until it is sent
  #hasToken = false

  constructor(lane: Lane, wait: number) {
    this.lane = lane
    const { clock } = lane.coalescer.link
    // After a turn, since calls that are about to begin may join.
    if (wait === 0) clock.turn(() => lane.seal(this))
    else this.#timer = clock.after(wait, () => lane.seal(this))
  }

  get progress(): Progress {
    return this.#call ?? { subject: this.lane.subject, tries: 0, reason: undefined }
  }

  /** Returns the number of calls. */
  add(single: Single): number {
    return this.#members.push(new Member(this, single))
  }

  send(hasToken: boolean): void {
    const { link } = this.lane.coalescer
    link.clock.stop(this.#timer)
    this.#hasToken = hasToken
    const { subject } = this.lane
    const { traceparent } = this.#members[0]! // one request has room for one trace
    const request = { subject, n: this.#members.length, hasty: true, traceparent }
    this.#call = new Call(link, request, link.clock.now() + firstTry + longestTogether, this)
    this.#call.start()
  }

  served(ids: IdBatch): void {
    const all = ids[Symbol.iterator]()
    for (const member of this.#members) member.resolve(all.next().value)
    this.#releaseLater()
  }

  failed(error: IdworkerError): void {
    const { coalescer } = this.lane
    const n = this.#members.length
    const tooLarge = n > 1 && error instanceof MalformedRequestError
    if (tooLarge) coalescer.lowerLimit(Math.floor(n / 2))
    const alone = error.retryable || tooLarge || (n > 1 && error instanceof ExhaustedError)
    for (const member of this.#members) {
      if (alone) member.callAlone()
      else member.reject(error)
    }
    this.#releaseLater()
  }

  goesOn(): void {
    if (this.#hasToken) this.lane.release()
    this.#hasToken = false
  }

  /** Ends the part of a member. The ID that was requested for it is lost. */
  leave(member: Member): void {
    if (this.#call === undefined) {
      this.#members.splice(this.#members.indexOf(member), 1)
      if (this.#members.length > 0) return
      this.lane.drop(this)
      this.lane.coalescer.link.clock.stop(this.#timer)
    } else if (++this.#left === this.#members.length) {
      this.#call.cancel()
    }
  }

  /**
   * The token comes back when the callers of this batch have had time to call
   * again, so that they join the next one. Otherwise, batches of one and of all
   * others alternate.
   */
  #releaseLater(): void {
    if (this.#hasToken) this.lane.coalescer.link.clock.turn(() => this.goesOn())
  }
}

/** A call that is part of a batch. */
class Member {
  readonly #batch: Batch
  readonly #single: Single
  readonly #link: Link
  readonly #ignoreSignal: (() => void) | undefined
  #timer: unknown
  #settled = false

  constructor(batch: Batch, single: Single) {
    this.#batch = batch
    this.#single = single
    this.#link = batch.lane.coalescer.link
    const { clock } = this.#link
    this.#timer = clock.after(Math.max(0, single.deadline - clock.now()), () =>
      clock.turn(() => this.#leave(timeoutError(batch.progress))),
    )
    const { signal } = single
    if (signal !== undefined) {
      this.#ignoreSignal = onAbort(signal, () => this.#leave(cancelledError(batch.progress, signal.reason)))
    }
  }

  get traceparent(): string | undefined {
    return this.#single.traceparent
  }

  resolve(id: bigint): void {
    if (this.#settle()) this.#single.resolve(id)
  }

  reject(error: IdworkerError): void {
    if (this.#settle()) this.#single.reject(error)
  }

  /** Goes on without the batch. */
  callAlone(): void {
    if (this.#settle()) callAlone(this.#link, this.#single, this.#batch.progress)
  }

  #leave(error: IdworkerError): void {
    if (!this.#settle()) return
    this.#single.reject(error)
    this.#batch.leave(this)
  }

  /** Reports whether the member was still waiting. */
  #settle(): boolean {
    if (this.#settled) return false
    this.#settled = true
    this.#link.clock.stop(this.#timer)
    this.#ignoreSignal?.()
    return true
  }
}

/** Makes a call with a request of its own, perhaps after tries as part of a batch. */
function callAlone(link: Link, single: Single & Pick<Caller, "goesOn">, before?: Progress): void {
  const { subject, deadline, signal, traceparent, resolve, reject, goesOn } = single
  const call = new Call(link, { subject, n: 1, traceparent }, deadline, {
    signal,
    served: (ids) => resolve(ids.ranges[0]!.first),
    failed: reject,
    goesOn,
  })
  if (before !== undefined) {
    call.tries = before.tries
    call.reason = before.reason
  }
  call.start()
}
