import type { Msg } from "@nats-io/nats-core"
import { checkCount, plain, quote, show } from "./arguments.js"
import { IdBatch, type IdRange } from "./batch.js"
import {
  BadArgumentError,
  BadReplyError,
  BusyError,
  type ErrorDetails,
  ErrorReplyError,
  ExhaustedError,
  MalformedRequestError,
  NoSuchTagError,
  StrictTagError,
  UnavailableError,
} from "./errors.js"

const codeHeader = "Nats-Service-Error-Code"
const textHeader = "Nats-Service-Error"
const noResponders = 503

const largest = 2n ** 63n - 1n
const mostDigits = 19

/** A number of so many digits fits a double, and so do all of its prefixes. */
const lowDigits = 15
const lowBase = 10n ** BigInt(lowDigits)

/** Of a line that is quoted: 40 characters of four bytes at most. */
const mostQuotedBytes = 160
/** Of a worker's text. */
const mostText = 200

const lineFeed = 0x0a
const dash = 0x2d
const zero = 0x30

/** The classes of codes that have one of their own. */
const classes: Readonly<Record<number, typeof ErrorReplyError>> = {
  400: MalformedRequestError,
  404: NoSuchTagError,
  409: StrictTagError,
  429: BusyError,
  503: UnavailableError,
  507: ExhaustedError,
}

/** What an error says about the call whose reply is read. */
export type Reader = Pick<ErrorDetails, "subject" | "tries">

/**
 * Decodes the body of a reply to a request for n IDs, as docs/protocol.md says.
 * A range costs the same whatever its size.
 *
 * @throws {BadReplyError} unless the body has exactly n ascending IDs; the
 * message quotes at most 40 characters
 * @throws {BadCountError} unless n is an integer from 1 to 2^53−1
 */
export function decode(body: Uint8Array, n: number): IdBatch {
  checkCount(n)
  if (!(body instanceof Uint8Array)) {
    throw new BadArgumentError(`bad body: ${show(body)}, allowed is a Uint8Array`)
  }
  return decodeBody(body, n)
}

/**
 * Decodes a whole reply to a request for n IDs. Returns `no_responders` if it is
 * the NATS server's own: a status of 503 and no body.
 *
 * @throws {ErrorReplyError} the worker's refusal
 * @throws {BadReplyError} if it is malformed
 */
export function decodeReply(
  reply: Pick<Msg, "data" | "headers">,
  n: number,
  reader?: Reader,
): IdBatch | "no_responders" {
  const headers = readHeaders(reply, reader)
  if (headers === undefined) return decodeBody(reply.data, n, reader)
  if (headers.code === noResponders && reply.data.length === 0) return "no_responders"
  if (!headers.has(codeHeader)) return decodeBody(reply.data, n, reader)
  const code = headers.get(codeHeader)
  if (!/^[0-9]{3}$/.test(code)) {
    throw bad(`error code ${quote(code)}, allowed is three digits`, reader)
  }
  const number = Number(code)
  const text = `${plain(headers.get(textHeader), mostText) || "error reply"} (${code})`
  const details = { code: number, subject: reader?.subject, tries: reader?.tries }
  throw new (classes[number] ?? ErrorReplyError)(inRequest(reader, text), details)
}

/** Adds the subject of a request to the text of its error. */
export function inRequest(reader: Reader | undefined, text: string): string {
  return reader?.subject === undefined ? text : `request ${reader.subject}: ${text}`
}

/** nats-core parses headers when they are read, and throws if a name is none. */
function readHeaders(reply: Pick<Msg, "headers">, reader?: Reader): Msg["headers"] {
  try {
    return reply.headers
  } catch {
    throw bad("its headers cannot be read", reader)
  }
}

function decodeBody(body: Uint8Array, n: number, reader?: Reader): IdBatch {
  const ranges: IdRange[] = []
  let last = 0n
  let left = n
  for (let begin = 0; begin <= body.length; ) {
    const end = indexOf(lineFeed, body, begin, body.length)
    const range = decodeRange(body, begin, end)
    if (range === undefined) {
      const line = new TextDecoder("utf-8", { ignoreBOM: true }).decode(
        body.subarray(begin, Math.min(end, begin + mostQuotedBytes)),
      )
      throw bad(`${quote(line)} is not a range of IDs`, reader)
    }
    if (range.first <= last) {
      throw bad(`range ${range.first}-${range.last} is not above the previous one`, reader)
    }
    if (range.last - range.first >= BigInt(left)) {
      throw bad(`more than the ${n} IDs requested`, reader)
    }
    left -= Number(range.last - range.first) + 1
    last = range.last
    ranges.push(range)
    begin = end + 1
  }
  if (left > 0) throw bad(`${n - left} IDs, requested ${n}`, reader)
  return new IdBatch(ranges, n)
}

/** Reads the line of these bytes, end excluded. */
function decodeRange(body: Uint8Array, begin: number, end: number): IdRange | undefined {
  const middle = indexOf(dash, body, begin, end)
  const first = decimal(body, begin, middle)
  if (first === 0n) return undefined
  if (middle === end) return { first, last: first }
  const last = decimal(body, middle + 1, end)
  return first < last ? { first, last } : undefined
}

/** Reads digits without a leading zero. Returns 0 for anything else, and for numbers above 2^63−1. */
function decimal(body: Uint8Array, begin: number, end: number): bigint {
  if (begin >= end || end - begin > mostDigits || body[begin] === zero) return 0n
  const middle = Math.max(begin, end - lowDigits)
  let high = 0
  let low = 0
  for (let i = begin; i < end; i++) {
    const digit = body[i]! - zero
    if (digit < 0 || digit > 9) return 0n
    if (i < middle) high = high * 10 + digit
    else low = low * 10 + digit
  }
  if (high === 0) return BigInt(low)
  const number = BigInt(high) * lowBase + BigInt(low)
  return number <= largest ? number : 0n
}

function indexOf(wanted: number, body: Uint8Array, begin: number, end: number): number {
  for (let i = begin; i < end; i++) if (body[i] === wanted) return i
  return end
}

function bad(why: string, reader?: Reader): BadReplyError {
  const details = { subject: reader?.subject, tries: reader?.tries }
  return new BadReplyError(inRequest(reader, `malformed reply: ${why}`), details)
}
