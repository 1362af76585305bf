import { randomBytes } from "node:crypto"
import { setMaxListeners } from "node:events"
import {
  headers,
  type Msg,
  type MsgHdrs,
  type NatsConnection,
  type Status,
  type Subscription,
} from "@nats-io/nats-core"
import type { IdBatch } from "./batch.js"
import { type Clock, clock as systemClock } from "./clock.js"
import { decodeReply, inRequest } from "./decode.js"
import {
  BusyError,
  CallTimeoutError,
  CancelledError,
  ClosedError,
  ConnectionEndedError,
  type ErrorDetails,
  type IdworkerError,
  PermissionDeniedError,
  type Reason,
  UnavailableError,
} from "./errors.js"
import type { Log } from "./log.js"

// Times are in ms.

/** Many times the latency of a reply from a buffer, and little for a caller. */
export const firstTry = 50

/** The upper bound of pauses doubles with each try, within these bounds. */
const shortestPause = 50
const longestPause = 1000

/** Bounds pauses after silence: a frozen worker gets its share of the tries. */
const longestSilence = 250

/** Timers count whole ms, and may end by that much before their time. */
const timerError = 1

/** Says that IDs are for later. */
const forLater = headers()
forLater.set("Ids-Prefetch", "1")

/** A failure after which a call tries again. */
export type Transient = BusyError | UnavailableError | "no_reply" | "no_responders" | "disconnected"

/** What to request. */
export interface Request {
  readonly subject: string
  /** The number of IDs. */
  readonly n: number
  /** The IDs are for later. */
  readonly prefetched?: boolean
  /** A transient failure ends the call, silence does not. */
  readonly hasty?: boolean
  /** The caller's trace. A prefetched request belongs to none. */
  readonly traceparent?: string | undefined
}

/** Who waits for the outcome of a call. */
export interface Caller {
  /** Ends the call. */
  readonly signal?: AbortSignal | undefined
  /** Gets the IDs, unless the call fails. */
  served(ids: IdBatch): void
  /** Gets the error, unless the call is served. */
  failed(error: IdworkerError): void
  /** Gets each failure after which the call goes on. */
  transient?(reason: Transient): void
  /** Is called once if the call goes on after its first try. */
  goesOn?: (() => void) | undefined
}

/** How far a call has come. */
export interface Progress {
  readonly subject: string
  /** The number of requests that were sent. */
  readonly tries: number
  /** The latest transient failure. */
  readonly reason: Transient | undefined
}

/**
 * A request, repeated until a reply decides it. It acts when it starts, when a
 * reply arrives and when a timer ends.
 *
 * Replies to all tries count for as long as the call lasts, so a retry gives up
 * no request that a worker has parked.
 */
export class Call implements Progress {
  readonly request: Request
  readonly subject: string
  /** The last token of the subject of its replies. The link sets it. */
  token = ""
  tries = 0
  reason: Transient | undefined

  readonly #link: Link
  readonly #deadline: number
  readonly #caller: Caller
  #ignoreSignal: (() => void) | undefined
  #timer: unknown // undefined while none runs
  #first = true // the first try's wait
  #silent = true // no transient reply in this wait
  #bound = shortestPause // of the next pause
  #ended = false

  /** @param deadline by the link's clock; Infinity is none */
  constructor(link: Link, request: Request, deadline: number, caller: Caller) {
    this.request = request
    this.subject = request.subject
    this.#link = link
    this.#deadline = deadline
    this.#caller = caller
  }

  /** Sends the first request. */
  start(): void {
    const { signal } = this.#caller
    if (signal !== undefined) {
      if (signal.aborted) {
        this.cancel(signal.reason)
        return
      }
      this.#ignoreSignal = onAbort(signal, () => this.cancel(signal.reason))
    }
    this.#link.add(this)
    this.#await(firstTry)
    if (!this.#send() && !this.#ended) this.#pause()
  }

  /** Reads a reply. It never throws: nats-core would read no further. */
  accept(reply: Msg): void {
    try {
      const ids = decodeReply(reply, this.request.n, this)
      if (ids === "no_responders") this.#refused(ids)
      else if (this.#end()) this.#caller.served(ids)
    } catch (error) {
      if (error instanceof BusyError || error instanceof UnavailableError) this.#refused(error)
      else this.#fail(error as IdworkerError)
    }
  }

  /** Ends the call, whose IDs are no longer wanted. */
  cancel(cause?: unknown): void {
    this.#fail(cancelledError(this, cause))
  }

  /** Ends the call, which cannot go on. */
  stop({ kind, text, cause }: Ending): void {
    this.#fail(new kind(inRequest(this, text), { subject: this.subject, tries: this.tries, cause }))
  }

  #refused(reason: Transient): void {
    this.#record(reason)
    if (this.#ended) return
    this.#silent = false
    if (this.#first) this.#pause() // later waits go on: another worker may have parked a try
  }

  /** Waits after a first try that failed. */
  #pause(): void {
    this.#endFirst()
    this.#await(this.#jitter(shortestPause))
  }

  #endFirst(): void {
    this.#first = false
    this.#caller.goesOn?.()
  }

  #tryAgain(): void {
    const wait = this.#jitter(this.#silent ? Math.min(this.#bound, longestSilence) : this.#bound)
    if (this.#first) {
      this.#record("no_reply")
      this.#endFirst()
    }
    if (this.#silent) this.#link.renew()
    this.#await(wait)
    if (this.#send()) this.#bound = Math.min(2 * this.#bound, longestPause)
  }

  /** Sends the request. Reports whether it was sent; if not, the call may have ended. */
  #send(): boolean {
    const problem = this.#link.send(this)
    if (problem === undefined) return true
    if (problem === "disconnected") this.#record(problem)
    else this.stop(problem)
    return false
  }

  #record(reason: Transient): void {
    this.reason = reason
    this.#caller.transient?.(reason)
    if (this.request.hasty && reason !== "no_reply") this.#fail(transientError(this, reason))
  }

  /** Waits for replies until it is time for another try. */
  #await(ms: number): void {
    const { clock } = this.#link
    this.#silent = true
    clock.stop(this.#timer)
    const left = Math.max(0, this.#deadline - clock.now())
    this.#timer = clock.after(Math.min(ms, left), () => this.#onTimer())
  }

  /** A process that was busy runs timers before it reads the replies that have arrived. */
  #onTimer(): void {
    const { clock } = this.#link
    this.#timer = undefined
    clock.turn(() => {
      if (this.#ended || this.#timer !== undefined) return
      if (this.#deadline - clock.now() < timerError) this.#fail(timeoutError(this))
      else this.#tryAgain()
    })
  }

  /** A random half to all of a pause: calls that failed together do not retry together. */
  #jitter(ms: number): number {
    return (ms / 2) * (1 + this.#link.clock.random())
  }

  #fail(error: IdworkerError): void {
    if (this.#end()) this.#caller.failed(error)
  }

  /** Reports whether the call had not ended. */
  #end(): boolean {
    if (this.#ended) return false
    this.#ended = true
    this.#link.clock.stop(this.#timer)
    this.#link.remove(this)
    this.#ignoreSignal?.()
    return true
  }
}

/**
 * Calls a function when a signal is aborted, until the function that it returns
 * is called. Many calls may share a signal, which Node would take for a leak.
 */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal instanceof EventTarget) setMaxListeners(0, signal)
  signal.addEventListener("abort", run)
  return () => signal.removeEventListener("abort", run)
}

/** The error at the deadline. */
export function timeoutError(progress: Progress): CallTimeoutError {
  const reason = progress.reason ?? "no_reply"
  return new CallTimeoutError(
    `${describe(progress, reason)} (deadline exceeded after ${count(progress.tries)})`,
    details(progress, reason),
  )
}

/** The error of a call that was cancelled. */
export function cancelledError(progress: Progress, cause: unknown): CancelledError {
  const { reason } = progress
  const after = `cancelled after ${count(progress.tries)}`
  return new CancelledError(
    reason === undefined ? inRequest(progress, after) : `${describe(progress, reason)} (${after})`,
    { ...details(progress, reason), cause },
  )
}

/** The error of a hasty call. */
function transientError(progress: Progress, reason: Transient): IdworkerError {
  if (typeof reason !== "string") return reason
  return new CallTimeoutError(describe(progress, reason), details(progress, reason))
}

function details({ subject, tries }: Progress, reason: Transient | undefined): ErrorDetails {
  const cause = typeof reason === "string" ? undefined : reason
  return { subject, tries, reason: nameOf(reason), cause }
}

function nameOf(reason: Transient | undefined): Reason | undefined {
  if (reason instanceof BusyError) return "busy"
  return reason instanceof UnavailableError ? "unavailable" : reason
}

function describe(progress: Progress, reason: Transient): string {
  return typeof reason === "string" ? inRequest(progress, textOf(reason)) : reason.message
}

/** The reason in an error's message. */
export function textOf(reason: Reason): string {
  return reason === "no_responders" ? "no worker answered" : reason.replace("_", " ")
}

function count(tries: number): string {
  return tries === 1 ? "1 try" : `${tries} tries`
}

/** Why calls cannot go on. Each gets an error of its own. */
interface Ending {
  readonly kind: new (message: string, details: ErrorDetails) => IdworkerError
  readonly text: string
  readonly cause?: unknown
}

const clientClosed: Ending = { kind: ClosedError, text: "client is closed" }
const connectionClosed: Ending = { kind: ConnectionEndedError, text: "connection closed" }
const connectionDraining: Ending = { kind: ConnectionEndedError, text: "connection draining" }

/** What a client has of a connection: one subscription, below which all of its calls get their replies. */
export class Link {
  readonly clock: Clock
  readonly #connection: NatsConnection
  readonly #log: Log | undefined
  readonly #calls = new Map<string, Call>() // by token
  #inbox: Inbox | undefined
  readonly #statuses: AsyncIterable<Status>
  #lost: boolean // the connection, which nats-core makes again
  #doubtful = false // the server may have ignored the subscription
  #closed = false

  constructor(connection: NatsConnection, clock: Clock = systemClock, log?: Log) {
    this.clock = clock
    this.#log = log
    this.#connection = connection
    this.#statuses = connection.status()
    this.#lost = connection.info === undefined
    void this.#follow()
  }

  /**
   * Gives a call a random token. Replies go to the call until it is removed. Whoever guesses the token can have a worker
   * send this call the IDs of another request.
   */
  add(call: Call): void {
    call.token = crypto.randomUUID()
    this.#calls.set(call.token, call)
  }

  remove(call: Call): void {
    this.#calls.delete(call.token)
  }

  /**
   * Sends a request, or returns why it cannot be sent now. None is sent while the
   * connection is lost: it would be answered too late.
   */
  send(call: Call): Ending | "disconnected" | undefined {
    if (this.#closed) return clientClosed
    const connection = this.#connection
    if (connection.isClosed()) return connectionClosed
    if (connection.isDraining()) return connectionDraining
    if (this.#lost) return "disconnected"
    const { subject, n } = call.request
    try {
      this.#inbox ??= this.#subscribe(newInboxName(connection))
      const reply = this.#inbox.base + call.token
      call.tries++
      const body = n === 1 ? undefined : String(n)
      const headers = headersOf(call.request, connection)
      connection.publish(subject, body, headers === undefined ? { reply } : { reply, headers })
      return undefined
    } catch (cause) {
      return { kind: ConnectionEndedError, text: `cannot be sent: ${(cause as Error).message}`, cause }
    }
  }

  /** Subscribes again if the server may have ignored the subscription, as it does above a limit. */
  renew(): void {
    const connection = this.#connection
    if (!this.#doubtful || this.#lost || connection.isClosed() || connection.isDraining()) return
    this.#doubtful = false
    if (this.#inbox === undefined) return
    this.#inbox.subscription.unsubscribe()
    this.#inbox = this.#subscribe(this.#inbox.base)
  }

  /** Ends all calls. The connection stays. */
  close(): void {
    this.#closed = true
    this.#endCalls(clientClosed)
    this.#inbox?.subscription.unsubscribe()
    this.#inbox = undefined
    // The iterator of nats-core has it. Its return would wait for another status.
    const statuses = this.#statuses as { stop?(): void }
    statuses.stop?.()
  }

  #subscribe(base: string): Inbox {
    const subscription = this.#connection.subscribe(`${base}*`, {
      callback: (error, reply) => {
        if (error === null) this.#calls.get(reply.subject.slice(base.length))?.accept(reply)
      },
    })
    void subscription.closed.then(() => {
      if (this.#connection.isDraining()) this.#endCalls(connectionDraining)
    })
    return { base, subscription }
  }

  /** Follows the connection until it is closed, or the client is. */
  async #follow(): Promise<void> {
    for await (const status of this.#statuses) {
      if (status.type === "disconnect") {
        this.#lost = true
        this.#log?.connectionLost(status.server)
      } else if (status.type === "reconnect") {
        this.#lost = false
        this.#log?.connectionRestored(status.server)
      } else if (status.type === "error") this.#failed(status.error)
    }
    this.#endCalls(connectionClosed)
  }

  /** Reads an error that the server reported. A refusal is no reply, and arrives only here. */
  #failed(error: Error & { operation?: string; subject?: string }): void {
    if (error.name !== "PermissionViolationError") {
      this.#doubtful = true
      return
    }
    const denied = { kind: PermissionDeniedError, text: error.message, cause: error }
    if (error.operation !== "subscription") {
      this.#endCalls(denied, error.subject)
    } else if (this.#inbox !== undefined && error.subject === `${this.#inbox.base}*`) {
      this.#inbox = undefined // the next call asks again: rights change
      const text = `${error.message}: a user may subscribe only below its own inbox prefix, so set inboxPrefix in connect()`
      this.#endCalls({ ...denied, text })
    }
  }

  /** Ends the calls of a subject, or all. */
  #endCalls(ending: Ending, subject?: string): void {
    for (const call of [...this.#calls.values()]) {
      if (subject === undefined || call.subject === subject) call.stop(ending)
    }
  }
}

/** A server without headers would close the connection, but a trace must not cost an ID. */
function headersOf({ prefetched, traceparent }: Request, connection: NatsConnection): MsgHdrs | undefined {
  if (prefetched) return forLater
  if (traceparent === undefined || !connection.info?.headers) return undefined
  const traced = headers()
  traced.set("traceparent", traceparent)
  return traced
}

interface Inbox {
  /** Of the subjects of replies: all but the token. */
  readonly base: string
  readonly subscription: Subscription
}

const randomCharacters = 22

/**
 * A copy of the process must not read its replies, so the name comes from the
 * operating system: copies can have the same state of nats-core's own source.
 */
function newInboxName(connection: NatsConnection): string {
  // The connection of nats-core has its options, which the interface does not show.
  const { options } = connection as { options?: { inboxPrefix?: string } }
  const random = randomBytes(randomCharacters).toString("base64url").slice(0, randomCharacters)
  return `${options?.inboxPrefix || "_INBOX"}.${random}.`
}
