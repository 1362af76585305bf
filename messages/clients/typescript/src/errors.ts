/** Why a call repeated its requests until its time was over. */
export type Reason =
  /** Code 429: the workers have too many requests. */
  | "busy"
  /** Code 503: the worker has no IDs at the moment. */
  | "unavailable"
  /** Requests were sent, and nothing replied. */
  | "no_reply"
  /**
   * The NATS server replied that nothing answers such requests: no worker runs
   * with this prefix, or, for snowflake IDs, none has a worker ID.
   */
  | "no_responders"
  /** The connection was lost, so nothing could be sent. */
  | "disconnected"

/** What an {@link IdworkerError} knows beside its message. */
export interface ErrorDetails {
  code?: number | undefined
  subject?: string | undefined
  tries?: number | undefined
  reason?: Reason | undefined
  cause?: unknown
}

/**
 * Why a call got no ID. Its subclasses are the kinds of errors. The message
 * names the subject of the request, and the reason.
 */
export abstract class IdworkerError extends Error {
  /** Whether the same call may succeed later. */
  abstract readonly retryable: boolean
  /** The code of the error reply that decided the call, 0 to 999. */
  readonly code: number | undefined
  /** The subject of the requests, such as `ids.segment.order`. */
  readonly subject: string | undefined
  /** The number of requests that the call sent. 0 for a wait of a prefetcher. */
  readonly tries: number
  /** Why the call was still waiting when its time was over or it was cancelled. */
  readonly reason: Reason | undefined

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = new.target.name
    this.code = details.code
    this.subject = details.subject
    this.tries = details.tries ?? 0
    this.reason = details.reason
  }
}

/** An argument is malformed. Nothing was sent. */
export class BadArgumentError extends IdworkerError {
  readonly retryable = false
}

/** A prefix is malformed. */
export class BadPrefixError extends BadArgumentError {}

/** A tag is malformed. */
export class BadTagError extends BadArgumentError {}

/** A count is not an integer of 1 or more. */
export class BadCountError extends BadArgumentError {}

/** An option is malformed. */
export class BadConfigError extends BadArgumentError {}

/** A worker's refusal. This class itself is that of codes without a class of their own. */
export class ErrorReplyError extends IdworkerError {
  readonly retryable: boolean = false
}

/** Code 400: the request asks for more IDs than the worker's limit, 10,000 by default. */
export class MalformedRequestError extends ErrorReplyError {}

/** Code 404: the tag does not exist. */
export class NoSuchTagError extends ErrorReplyError {}

/** Code 409: a strict tag cannot be prefetched. */
export class StrictTagError extends ErrorReplyError {}

/** Code 507: the tag's numbers are used up. */
export class ExhaustedError extends ErrorReplyError {}

/** Code 429: too many requests. It is the cause of a time-out, never thrown alone. */
export class BusyError extends ErrorReplyError {
  override readonly retryable = true
}

/** Code 503: no IDs at the moment. It is the cause of a time-out, never thrown alone. */
export class UnavailableError extends ErrorReplyError {
  override readonly retryable = true
}

/** A reply is not what a worker sends. */
export class BadReplyError extends IdworkerError {
  readonly retryable = false
}

/** The NATS server refused the request, or the inbox of its reply. */
export class PermissionDeniedError extends IdworkerError {
  readonly retryable = false
}

/** The connection was closed or is being drained. */
export class ConnectionEndedError extends IdworkerError {
  readonly retryable = false
}

/** The client or the prefetcher was closed. */
export class ClosedError extends IdworkerError {
  readonly retryable = false
}

/** No ID came in time. `reason` says why. */
export class CallTimeoutError extends IdworkerError {
  readonly retryable = true
}

/** The call's signal was aborted. The name is `AbortError`, the cause the signal's reason. */
export class CancelledError extends IdworkerError {
  readonly retryable = false

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details)
    this.name = "AbortError"
  }
}

/** {@link Prefetcher.take} found no buffered ID. A refill is on its way. */
export class BufferEmptyError extends IdworkerError {
  readonly retryable = true
}
