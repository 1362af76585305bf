import { checkTag, invisible, plain, quote, show } from "./arguments.js"
import type { CallOptions } from "./client.js"
import { BadArgumentError } from "./errors.js"
import type { Ids } from "./ids.js"

/** What is wrong with a format, a time zone, a date, an ID or a text. */
export type DocumentNumberFault = keyof typeof faults

const faults = {
  /** The format is malformed, or its numbers could repeat. */
  format: "bad format of numbers",
  /** The time zone has no such name. */
  zone: "bad time zone",
  /** The date is none, or is not of the years 1 to 9999 in the format's zone. */
  date: "bad date",
  /** The ID is not a bigint from 1 to 2^63−1. */
  seq: "bad sequence number",
  /** No document of the format has this text. */
  number: "no number of this format",
}

/** A format, a time zone, a date, an ID or a text is not as {@link NumberFormat} needs it. */
export class DocumentNumberError extends BadArgumentError {
  readonly fault: DocumentNumberFault

  /** @internal */
  constructor(fault: DocumentNumberFault, why: string) {
    super(`${faults[fault]}: ${why}`)
    this.fault = fault
  }
}

/** A number that was read. */
export interface DocumentNumber {
  /** The part of the tag before the date. */
  readonly base: string
  /** The date's digits in the order year, month, day; empty without a date. */
  readonly period: string
  /** The ID. */
  readonly seq: bigint
  /** The tag that issued the ID. */
  readonly tag: string
}

type Field = "literal" | "year" | "month" | "day" | "seq"

/** A part of a number. */
interface Part {
  readonly field: Field
  /** The literal, or the token. */
  readonly text: string
  /** Characters; of an ID, the fewest. */
  readonly width: number
}

/** The digits of a date's fields, without those that the format lacks. */
type Digits = Partial<Record<Field, string>>

const dateTokens: readonly Part[] = [
  { field: "year", text: "yyyy", width: 4 },
  { field: "year", text: "yy", width: 2 }, // yyyy begins with it
  { field: "month", text: "MM", width: 2 },
  { field: "day", text: "dd", width: 2 },
]

const mostFormatBytes = 100
const mostPadding = 19 // digits of 2^63−1
const largestId = 2n ** 63n - 1n

/** A time that a caller of Go's client has not set; no language takes it. */
const unset = Date.parse("0001-01-01T00:00:00Z")

/** A day, or a time of RFC 3339. */
const dateForm =
  /^([0-9]{4})-([0-9]{2})-([0-9]{2})(T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}(?:[.][0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))?$/

/**
 * Turns IDs of tags into numbers of documents, such as TCK-20261126-000001, that
 * begin again each day, month or year, and reads them.
 *
 * ```ts
 * const tickets = new NumberFormat("ticket", "TCK-{yyyyMMdd}-{seq:6}", "Asia/Shanghai")
 * const number = await tickets.next(ids, new Date())
 * ```
 *
 * Each period has a tag of its own, here `ticket.20261126`. A template creates
 * them at their first request:
 *
 *     idworker tag create 'ticket.*' --template --dated yyyyMMdd --order strict
 *
 * Numbers of a strict tag ascend within a period. There is no order between the
 * numbers of two periods, because the clocks of callers differ.
 *
 * Numbers have gaps: each reply that is lost or comes too late loses its numbers,
 * and so does an application that does not use what it got. So they are for
 * orders, tickets or shipments. If the law requires invoices without gaps, let the
 * database count them, in the transaction that inserts the invoice;
 * docs/callers.md shows how.
 *
 * No two documents have one number. It shows all the digits that its tag ends
 * with, and the ID; only the ID varies in width, so the length of a number tells
 * where each field begins. Numbers of two formats may be equal: give each base
 * one format for life, and each format some text that no other has.
 */
export class NumberFormat {
  readonly base: string
  readonly format: string
  readonly zone: string
  /**
   * The date at the end of tags as templates name it: yyyyMMdd, yyyyMM, yyyy,
   * yyMMdd, yyMM or yy; or empty if numbers never begin again.
   */
  readonly dated: string
  readonly #parts: Part[] = []
  readonly #fixed: number // characters of all parts but the ID
  readonly #calendar: Intl.DateTimeFormat

  /**
   * A format is text with tokens in braces, 1 to 100 bytes:
   *
   *     {yyyy} or {yy}  year, of four digits or the last two
   *     {MM} {dd}       month and day, of two digits
   *     {seq:6}         the ID, with zeros up to 6 (1 to 19) digits, and never cut
   *     {seq}           the same without zeros
   *
   * Tokens of dates may share braces, as in {yyyyMMdd}, and come in any order. dd
   * needs MM, and MM a year. Without a date, the tag is the base, and numbers never
   * begin again. {seq} is required. No token may come twice. Text must not have
   * braces, nor characters that are invisible or change the direction: Unicode's
   * categories Cc, Cf, Zl and Zp.
   *
   * @param base the part of the tags before the date
   * @param zone decides to which day a time belongs: a name such as Asia/Shanghai.
   * It is required, because the local zone differs between machines
   * @throws {DocumentNumberError} of the fault `format` or `zone`
   * @throws {BadTagError} if the base is no tag, or a tag is above 128 bytes
   */
  constructor(base: string, format: string, zone: string) {
    checkTag(base)
    this.base = base
    this.format = format
    this.zone = zone
    this.#readParts()
    this.dated = join(this.#checkedTokens())
    this.#fixed = this.#parts.reduce((sum, part) => sum + (part.field === "seq" ? 0 : part.width), 0)
    this.#calendar = calendarOf(zone)
    checkTag(this.#tagOf(this.dated))
  }

  /**
   * Returns the next number of a document of that time.
   *
   * @throws {DocumentNumberError} of the fault `date`; nothing was sent
   * @throws {IdworkerError} as {@link Idworker.next} does
   */
  async next(ids: Pick<Ids, "next">, at: Date, options?: CallOptions): Promise<string> {
    return this.number(at, await ids.next(this.tag(at), options))
  }

  /**
   * Returns the next n numbers of documents of that time, in ascending order of
   * their IDs.
   *
   * @param n at least 1, at most the batch limit of the workers
   * @throws {DocumentNumberError} of the fault `date`; nothing was sent
   * @throws {IdworkerError} as {@link Idworker.nextN} does
   */
  async nextN(ids: Pick<Ids, "nextN">, at: Date, n: number, options?: CallOptions): Promise<string[]> {
    return Array.from(await ids.nextN(this.tag(at), n, options), (id) => this.number(at, id))
  }

  /**
   * Returns the tag of documents of that time: the base, and if the format has a
   * date, a dot and all its digits that numbers show, in the order year, month,
   * day. A format without a date takes any time.
   *
   * @throws {DocumentNumberError} of the fault `date`
   */
  tag(at: Date): string {
    return this.#tagOf(join(this.#digitsOf(at)))
  }

  /**
   * Returns the number of a document of that time, with an ID of its tag.
   *
   * @throws {DocumentNumberError} of the fault `date` or `seq`
   */
  number(at: Date, id: bigint): string {
    const shown = this.#digitsOf(at)
    if (typeof id !== "bigint" || id < 1n || id > largestId) {
      throw new DocumentNumberError("seq", `${show(id)}, allowed is a bigint from 1 to 2^63-1`)
    }
    return this.#parts
      .map(({ field, text, width }) => {
        if (field === "literal") return text
        return field === "seq" ? padded(id, width) : shown[field]
      })
      .join("")
  }

  /**
   * Reads a document's date: a time of RFC 3339, or a day of the format's zone,
   * such as 2026-11-26, for which it returns the noon. Midnight would be wrong:
   * some zones skip it when daylight saving begins.
   *
   * @throws {DocumentNumberError} of the fault `date`, also if the zone skipped the
   * day
   */
  parseDate(text: string): Date {
    const [, year, month, day, time] = (typeof text === "string" && dateForm.exec(text)) || []
    if (!year || !month || !day || !isDate({ year, month, day })) {
      const shown = show(text)
      throw new DocumentNumberError(
        "date",
        `${shown}, allowed is a day such as 2026-11-26, or a time of RFC 3339`,
      )
    }
    if (time) return new Date(text)
    const noon = Date.parse(`${text}T12:00:00Z`)
    const near = noon - (this.#localTime(noon) - noon)
    const at = new Date(noon - (this.#localTime(near) - near)) // the offset of the day itself
    if (Math.floor(this.#localTime(at.getTime()) / dayLength) === Math.floor(noon / dayLength)) return at
    throw new DocumentNumberError("date", `there was no ${text} in ${this.zone}`)
  }

  /**
   * Reads a number. It accepts exactly what {@link NumberFormat.number} returns.
   *
   * @throws {DocumentNumberError} of the fault `number` for any other text
   */
  parse(number: string): DocumentNumber {
    if (typeof number !== "string") throw this.#notOfFormat(number, "is no string")
    const seqWidth = number.length - this.#fixed
    const read: Digits = {}
    let seq = 0n
    let begin = 0
    for (const { field, text, width } of this.#parts) {
      const end = begin + (field === "seq" ? seqWidth : width)
      if (end - begin < width || end > number.length) throw this.#notOfFormat(number, "is too short")
      const got = number.slice(begin, end)
      begin = end
      if (field === "literal") {
        if (got !== text) throw this.#notOfFormat(number, "has other text")
      } else if (!/^[0-9]+$/.test(got)) {
        throw this.#notOfFormat(number, "has other characters than digits")
      } else if (field === "seq") {
        seq = BigInt(got)
        if (seq < 1n || seq > largestId || (got.length > width && got[0] === "0")) {
          throw this.#notOfFormat(number, "has no sequence number from 1 to 2^63-1, or too many zeros")
        }
      } else {
        read[field] = got
      }
    }
    if (!isDate(read)) throw this.#notOfFormat(number, "has no date of the calendar")
    const period = join(read)
    return { base: this.base, period, seq, tag: this.#tagOf(period) }
  }

  toString(): string {
    return this.format
  }

  #readParts(): void {
    const { format } = this
    if (typeof format !== "string") throw new DocumentNumberError("format", `${show(format)} is no string`)
    const bytes = Buffer.byteLength(format)
    if (bytes < 1 || bytes > mostFormatBytes) {
      throw this.#badFormat(`${bytes} bytes, allowed is 1 to ${mostFormatBytes}`)
    }
    for (let at = 0; at < format.length; ) {
      const open = format.indexOf("{", at)
      const text = format.slice(at, open < 0 ? format.length : open)
      this.#checkLiteral(text)
      if (text !== "") this.#parts.push({ field: "literal", text, width: text.length })
      if (open < 0) return
      const close = format.indexOf("}", open)
      if (close < 0) throw this.#badFormat("{ without }")
      this.#readTokens(format.slice(open + 1, close))
      at = close + 1
    }
  }

  /** Reads what is between braces. */
  #readTokens(inside: string): void {
    if (inside === "seq" || inside.startsWith("seq:")) {
      const [, padding = "1"] = /^seq:([1-9][0-9]?)$/.exec(inside) ?? []
      const width = Number(padding)
      if ((inside !== "seq" && inside !== `seq:${padding}`) || width > mostPadding) {
        throw this.#badTokens(inside, `allowed is {seq} or {seq:N}, N from 1 to ${mostPadding}`)
      }
      this.#parts.push({ field: "seq", text: inside, width })
      return
    }
    let rest = inside
    do {
      const token = dateTokens.find(({ text }) => rest.startsWith(text))
      if (token === undefined) {
        throw this.#badTokens(inside, "allowed are yyyy or yy, MM, dd, or one {seq} or {seq:N}")
      }
      this.#parts.push(token)
      rest = rest.slice(token.width)
    } while (rest !== "")
  }

  /** Refuses text that could be a mistaken token, or with which different numbers could look the same. */
  #checkLiteral(text: string): void {
    for (const c of text) {
      if (c === "}") throw this.#badFormat("} without {")
      if (invisible.test(c)) {
        throw this.#badFormat(`${quote(c)} is not allowed, only visible characters and spaces`)
      }
    }
  }

  /**
   * Returns the date's tokens. It refuses a format whose numbers could repeat: the
   * ID is missing, or a date begins again within a century.
   */
  #checkedTokens(): Digits {
    const tokens: Digits = {}
    let ids = 0
    for (const { field, text } of this.#parts) {
      if (field === "seq") {
        ids++
      } else if (field !== "literal") {
        if (tokens[field] !== undefined) throw this.#badFormat("a part of the date comes twice")
        tokens[field] = text
      }
    }
    if (ids !== 1) throw this.#badFormat(`{seq} comes ${ids} times, allowed is once`)
    if (tokens.day && !tokens.month) throw this.#badFormat("dd needs MM")
    if (tokens.month && !tokens.year) throw this.#badFormat("MM needs yyyy or yy")
    return tokens
  }

  /** The digits that numbers of that time show. */
  #digitsOf(at: Date): Digits {
    const shown: Digits = {}
    if (this.dated === "") return shown
    const time = at instanceof Date ? at.getTime() : Number.NaN
    const day = new Date(Number.isNaN(time) ? Number.NaN : this.#localTime(time))
    const year = day.getUTCFullYear()
    if (!(year >= 1 && year <= 9999) || time === unset) {
      const text = Number.isNaN(time) ? "no time" : at.toISOString()
      throw new DocumentNumberError(
        "date",
        `${text} in ${this.zone}, allowed are the years 1 to 9999, and a time that was set`,
      )
    }
    const values = { year, month: day.getUTCMonth() + 1, day: day.getUTCDate() }
    for (const { field, width } of this.#parts) {
      if (field !== "literal" && field !== "seq") shown[field] = padded(values[field], 4).slice(-width)
    }
    return shown
  }

  /** What clocks of the zone show at a time, as the ms of a clock of UTC that shows the same. */
  #localTime(time: number): number {
    const shown: Partial<Record<Intl.DateTimeFormatPartTypes, string>> = {}
    for (const { type, value } of this.#calendar.formatToParts(time)) shown[type] = value
    const year = shown.era === "BC" ? 1 - Number(shown.year) : Number(shown.year)
    const local = new Date(0)
    local.setUTCFullYear(year, Number(shown.month) - 1, Number(shown.day))
    return local.setUTCHours(Number(shown.hour), Number(shown.minute), Number(shown.second))
  }

  #tagOf(period: string): string {
    return period === "" ? this.base : `${this.base}.${period}`
  }

  #badFormat(why: string): DocumentNumberError {
    return new DocumentNumberError("format", `"${plain(this.format, mostFormatBytes)}": ${why}`)
  }

  #badTokens(inside: string, allowed: string): DocumentNumberError {
    return this.#badFormat(`{${plain(inside, mostFormatBytes)}}: ${allowed}`)
  }

  #notOfFormat(number: unknown, why: string): DocumentNumberError {
    const shown = typeof number === "string" ? `"${plain(number, 200)}"` : show(number)
    return new DocumentNumberError("number", `"${plain(this.format, mostFormatBytes)}": ${shown} ${why}`)
  }
}

const dayLength = 86_400_000 // ms

/** Returns what shows the time in a zone. */
function calendarOf(zone: string): Intl.DateTimeFormat {
  try {
    if (typeof zone !== "string") throw new RangeError()
    return new Intl.DateTimeFormat("en-US-u-ca-gregory-nu-latn", {
      timeZone: zone,
      era: "short",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
      hourCycle: "h23",
    })
  } catch {
    throw new DocumentNumberError("zone", `${show(zone)}, allowed is a name such as Asia/Shanghai`)
  }
}

/** Whether there is such a date. A year of two digits may be of any century: in 2000, 29 February existed. */
function isDate({ year = "2000", month = "01", day = "01" }: Digits): boolean {
  const text = `${year.padStart(4, "20")}-${month}-${day}`
  const at = new Date(`${text}T00:00:00Z`)
  return at.getUTCFullYear() >= 1 && at.toISOString().startsWith(text)
}

function padded(n: bigint | number, width: number): string {
  return String(n).padStart(width, "0")
}

function join({ year = "", month = "", day = "" }: Digits): string {
  return year + month + day
}
