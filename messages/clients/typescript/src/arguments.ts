import type { CallOptions } from "./client.js"
import { BadConfigError, BadCountError, BadPrefixError, BadTagError } from "./errors.js"
import type { Logger } from "./log.js"
import type { PrefetchOptions } from "./prefetch.js"

const mostTagBytes = 128
const mostPrefixBytes = 32
const mostQuoted = 40
const longestTimeout = 2 ** 31 - 1
const longestRunway = 3_600_000
const mostIds = 1_000_000_000

const dot = 0x2e

/**
 * Checks a tag: tokens of `A-Z a-z 0-9 _ -`, joined by single dots, 1 to 128
 * bytes in all.
 *
 * @throws {BadTagError} with what is wrong and what is allowed
 */
export function checkTag(tag: string): void {
  if (typeof tag !== "string") {
    throw new BadTagError(`malformed tag: ${show(tag)}, allowed is a string`)
  }
  if (tag.length === 0 || tag.length > mostTagBytes) {
    throw new BadTagError(`malformed tag: ${Buffer.byteLength(tag)} bytes, allowed is 1 to ${mostTagBytes}`)
  }
  let token = 0 // characters in the token so far
  for (let i = 0; i < tag.length; i++) {
    const c = tag.charCodeAt(i)
    if (isTokenCharacter(c)) {
      token++
    } else if (c === dot && token > 0 && i < tag.length - 1) {
      token = 0
    } else if (c === dot) {
      throw new BadTagError(
        `malformed tag: empty token at byte ${i}, allowed are tokens joined by single dots`,
      )
    } else {
      throw new BadTagError(
        `malformed tag: ${quoteCharacter(tag, i)} at byte ${i}, allowed are A-Z a-z 0-9 _ - and dots between tokens`,
      )
    }
  }
}

/**
 * Checks the prefix of an installation's subjects: a token of `a-z 0-9 _ -`, 1
 * to 32 bytes.
 *
 * @throws {BadPrefixError} with what is wrong and what is allowed
 */
export function checkPrefix(prefix: string): void {
  if (typeof prefix !== "string") {
    throw new BadPrefixError(`bad prefix: ${show(prefix)}, allowed is a string`)
  }
  if (prefix.length === 0 || prefix.length > mostPrefixBytes) {
    throw new BadPrefixError(
      `bad prefix: ${Buffer.byteLength(prefix)} bytes, allowed is 1 to ${mostPrefixBytes}`,
    )
  }
  for (let i = 0; i < prefix.length; i++) {
    const c = prefix.charCodeAt(i)
    if (!isTokenCharacter(c) || isUpperCase(c)) {
      throw new BadPrefixError(
        `bad prefix: ${quote(prefix)} has ${quoteCharacter(prefix, i)} at byte ${i}, allowed are a-z 0-9 _ -`,
      )
    }
  }
}

/**
 * Checks the number of IDs of a request: an integer from 1 to 2^53−1. The worker
 * has a limit of its own.
 *
 * @throws {BadCountError}
 */
export function checkCount(n: number): void {
  if (!Number.isSafeInteger(n) || n < 1) {
    throw new BadCountError(`bad count: ${show(n)}, allowed is an integer from 1 to 2^53-1`)
  }
}

/**
 * Checks a time-out, in ms: above 0, at most 2^31−1, the longest timer of Node.
 *
 * @throws {BadConfigError}
 */
export function checkTimeout(timeout: number): void {
  if (typeof timeout !== "number" || !(timeout > 0 && timeout <= longestTimeout)) {
    throw new BadConfigError(
      `bad timeout: ${show(timeout)}, allowed is above 0 ms, up to ${longestTimeout} ms`,
    )
  }
}

/**
 * Checks the option that gives the current `traceparent`.
 *
 * @throws {BadConfigError}
 */
export function checkTraceparent(traceparent: (() => string | undefined) | undefined): void {
  if (traceparent !== undefined && typeof traceparent !== "function") {
    throw new BadConfigError(`bad traceparent: ${show(traceparent)}, allowed is a function`)
  }
}

/**
 * Checks the option that receives events.
 *
 * @throws {BadConfigError}
 */
export function checkLogger(log: Logger): void {
  if (typeof log?.warn !== "function" || typeof log.info !== "function") {
    throw new BadConfigError(
      `bad log: ${show(log)}, allowed is an object with warn and info, such as console`,
    )
  }
}

/** Reports whether a value may be sent: 1 to 256 visible ASCII characters. */
export function isTraceparent(value: unknown): value is string {
  return typeof value === "string" && /^[!-~]{1,256}$/.test(value)
}

/**
 * Checks that options are an object, and that each has a known name: JavaScript
 * would ignore a misspelled one.
 *
 * @throws {BadConfigError}
 */
export function checkOptions<Options extends object>(
  options: Options,
  allowed: readonly (keyof Options & string)[],
): void {
  if (typeof options !== "object" || options === null) {
    throw new BadConfigError(`bad options: ${show(options)}, allowed is an object`)
  }
  const names: readonly string[] = allowed
  for (const name of Object.keys(options)) {
    if (names.includes(name)) continue
    throw new BadConfigError(`bad options: unknown option ${quote(name)}, allowed are ${names.join(", ")}`)
  }
}

/**
 * Checks the options of a call.
 *
 * @throws {BadConfigError}
 */
export function checkCallOptions(options: CallOptions): void {
  checkOptions(options, ["timeout", "signal"])
  if (options.timeout !== undefined) checkTimeout(options.timeout)
  if (options.signal !== undefined) checkSignal(options.signal)
}

/**
 * Checks the options of a prefetcher, and adds the defaults.
 *
 * @throws {BadConfigError}
 */
export function checkedPrefetch(options: PrefetchOptions): Required<PrefetchOptions> {
  checkOptions(options, ["runway", "limit", "maxBatch"])
  const checked = (option: keyof PrefetchOptions, byDefault: number, most: number): number => {
    const value = options[option] ?? byDefault
    if (Number.isInteger(value) && value >= 1 && value <= most) return value
    throw new BadConfigError(
      `bad prefetch options: ${option} ${show(value)}, allowed is an integer from 1 to ${most}`,
    )
  }
  return {
    runway: checked("runway", 1000, longestRunway),
    limit: checked("limit", 1_000_000, mostIds),
    maxBatch: checked("maxBatch", 10_000, mostIds),
  }
}

/**
 * Checks the signal of a call.
 *
 * @throws {BadConfigError}
 */
export function checkSignal(signal: AbortSignal): void {
  if (typeof signal?.aborted !== "boolean" || typeof signal.addEventListener !== "function") {
    throw new BadConfigError(`bad signal: ${show(signal)}, allowed is an AbortSignal`)
  }
}

/** Quotes at most 40 characters of a text, on one line whatever the text is. */
export function quote(text: string): string {
  return `"${plain(text, mostQuoted)}"`
}

/** Shows at most so many characters of a text: the invisible ones as escapes. */
export function plain(text: string, most: number): string {
  let shown = ""
  let left = most
  for (const c of text) {
    if (left-- === 0) break
    shown += invisible.test(c) ? `\\u${c.codePointAt(0)!.toString(16).padStart(4, "0")}` : c
  }
  return shown
}

/** Characters that show nothing, change how others are shown, or are half of one. */
export const invisible = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u

/** Shows a value of an unknown type in a message. */
export function show(value: unknown): string {
  switch (typeof value) {
    case "string":
      return quote(value)
    case "bigint":
      return plain(`${value}n`, mostQuoted)
    case "object":
      return value === null ? "null" : "an object"
    case "function":
    case "symbol":
      return `a ${typeof value}`
    default:
      return String(value)
  }
}

function quoteCharacter(text: string, index: number): string {
  return `'${plain(text.slice(index, index + 2), 1)}'`
}

function isTokenCharacter(c: number): boolean {
  return (c >= 0x61 && c <= 0x7a) || isUpperCase(c) || (c >= 0x30 && c <= 0x39) || c === 0x5f || c === 0x2d
}

function isUpperCase(c: number): boolean {
  return c >= 0x41 && c <= 0x5a
}
