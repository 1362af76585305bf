import type { Clock } from "./clock.js"
import {
  BufferEmptyError,
  CallTimeoutError,
  CancelledError,
  ConnectionEndedError,
  type IdworkerError,
} from "./errors.js"

/**
 * Receives a client's events: a name and its fields. `console` has this form, and so do winston's loggers.
 * pino takes the fields first: `{ warn: (event, fields) => logger.warn(fields, event), info: … }`.
 */
export interface Logger {
  warn(event: string, fields: LogFields): unknown
  info(event: string, fields: LogFields): unknown
}

/** The fields of an event. */
export type LogFields = Readonly<Record<string, string | number>>

/**
 * Most libraries for Node.js are silent, or emit events that nobody has subscribed to. During an outage that
 * leaves an application without a trace of its cause, so the client writes by default: few lines, and to
 * stderr, because stdout belongs to the application.
 */
const write = (event: string, fields: LogFields): void =>
  console.warn(`idworker: ${event} ${JSON.stringify(fields)}`)

/** Writes each event as a line to stderr. */
export const stderrLogger: Logger = { warn: write, info: write }

/**
 * Bounds the memory, and the lines of an outage of many tags. When all places are taken, subjects that have not
 * failed for so many ms give theirs up: many tags, such as those of a past day, are never used again, and
 * would hide every later outage.
 */
const maxFailing = 16
const longestKept = 60_000

/**
 * If calls succeed and fail in turns, as they do while workers are overloaded, the outage goes on. So a
 * success ends it only if the last failure is so many ms ago, and there are few lines however many calls fail.
 */
const minQuiet = 1000

/** A time in which the calls for a subject fail. */
interface Outage {
  readonly since: number
  last: number
  calls: number
}

/**
 * Reports outages: the first call for a subject that failed, the first that succeeded afterwards, and what
 * happens to the connection. No logger can harm a call: what it throws, or rejects, is dropped.
 */
export class Log {
  readonly #logger: Logger
  readonly #clock: Clock
  readonly #failing = new Map<string, Outage>() // by subject

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger
    this.#clock = clock
  }

  /** Notes that a call has failed. Mistakes of the caller and refusals of workers are no outage. */
  failed(subject: string, error: IdworkerError): void {
    if (!isOutage(error)) return
    const now = this.#clock.now()
    const outage = this.#failing.get(subject)
    if (outage !== undefined) {
      outage.last = now
      outage.calls++
      return
    }
    if (this.#failing.size >= maxFailing) this.#forget(now - longestKept)
    if (this.#failing.size >= maxFailing) return
    this.#failing.set(subject, { since: now, last: now, calls: 1 })
    void this.#write("warn", "ID requests fail", { subject, error: error.message })
  }

  /** Notes that IDs have arrived. It costs one comparison unless calls fail. */
  succeeded(subject: string): void {
    if (this.#failing.size === 0) return
    const outage = this.#failing.get(subject)
    if (outage === undefined) return
    const now = this.#clock.now()
    if (now - outage.last < minQuiet) return
    this.#failing.delete(subject)
    const seconds = Math.round((now - outage.since) / 100) / 10
    void this.#write("info", "ID requests succeed again", { subject, failedCalls: outage.calls, seconds })
  }

  /** Drops the outages without a failure since then. */
  #forget(since: number): void {
    for (const [subject, { last }] of this.#failing) {
      if (last < since) this.#failing.delete(subject)
    }
  }

  connectionLost(server: string): void {
    void this.#write("warn", "NATS connection lost", { server })
  }

  connectionRestored(server: string): void {
    void this.#write("info", "NATS connection restored", { server })
  }

  /** Awaits what the logger returns, since a rejection that nobody handles would end the process. */
  async #write(level: keyof Logger, event: string, fields: LogFields): Promise<void> {
    try {
      await this.#logger[level](event, fields)
    } catch {}
  }
}

function isOutage(error: IdworkerError): boolean {
  // AbortSignal.timeout is a time-out that is written as a cancellation.
  if (error instanceof CancelledError) return (error.cause as Error | undefined)?.name === "TimeoutError"
  // A buffer that is empty only because nobody has awaited `ready` has no reason.
  if (error instanceof BufferEmptyError) return error.reason !== undefined
  return error instanceof CallTimeoutError || error instanceof ConnectionEndedError
}
