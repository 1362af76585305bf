import assert from "node:assert/strict"
import { test } from "node:test"
import {
  BadArgumentError,
  BadTagError,
  type CallOptions,
  checkTag,
  ExhaustedError,
  IdBatch,
} from "../src/index.js"
import { DocumentNumberError, type DocumentNumberFault, NumberFormat } from "../src/number.js"
import { randomOf } from "./random.mjs"

// The vectors of every language are checked in opaque.test.ts.

function fault(kind: DocumentNumberFault, text: string) {
  return (error: unknown) => {
    assert.ok(error instanceof DocumentNumberError && error instanceof BadArgumentError)
    assert.deepEqual([error.fault, error.message], [kind, text])
    return true
  }
}

test("no two documents of a format have one number, and each is read back", () => {
  const dates = ["1112-01-01", "1112-11-12", "1111-11-11", "1111-12-11", "2012-11-11"].map(
    (day) => new Date(`${day}T00:00:00Z`),
  )
  const ids = [1n, 2n, 11n, 12n, 111n, 1112n, 111211n]
  let accepted = 0
  let formats = [""]
  for (let parts = 0; parts < 5; parts++) {
    formats = formats.flatMap((before) =>
      ["1", "{yyyy}", "{yy}", "{MM}", "{dd}", "{seq}", "{seq:2}"].map((part) => before + part),
    )
    for (const text of formats) {
      let format: NumberFormat
      try {
        format = new NumberFormat("t", text, "UTC")
      } catch (error) {
        assert.ok(error instanceof DocumentNumberError && error.fault === "format", String(error))
        continue
      }
      accepted++
      const had = new Map<string, string>()
      for (const at of dates) {
        const tag = format.tag(at)
        for (const id of ids) {
          const number = format.number(at, id)
          const origin = `${tag} ${id}`
          assert.equal(had.get(number) ?? origin, origin, `${text}: ${number} of two documents`)
          had.set(number, origin)
          const read = format.parse(number)
          assert.equal(`${read.tag} ${read.seq}`, origin, `${text}: ${number}`)
        }
      }
    }
  }
  // Widths of the ID and of the year, and their places with no date, y, yM, yMd.
  assert.equal(accepted, 2 * 15 + 4 * (40 + 90 + 144))
})

test("a day of any zone has a noon, which is of that day", () => {
  for (const zone of Intl.supportedValuesOf("timeZone")) {
    const format = new NumberFormat("invoice", "{yyyyMMdd}-{seq}", zone)
    for (const day of ["1850-06-01", "1970-01-01", "2018-11-04", "2026-03-08", "2026-11-01", "9999-12-31"]) {
      assert.equal(format.number(format.parseDate(day), 1n), `${day.replaceAll("-", "")}-1`, zone)
    }
  }
})

test("the noon of a day is that of the day's own offset", () => {
  // Clocks changed between the noon of UTC and that of the zone.
  const format = new NumberFormat("invoice", "{yyyyMMdd}-{seq}", "Pacific/Apia")
  assert.equal(format.parseDate("2011-09-24").toISOString(), "2011-09-24T22:00:00.000Z")
})

test("a time is of the day that clocks of the zone show", (t) => {
  const random = randomOf(t)
  for (const zone of [
    "Asia/Shanghai",
    "America/New_York",
    "Pacific/Kiritimati",
    "America/Sao_Paulo",
    "Pacific/Apia",
  ]) {
    const format = new NumberFormat("invoice", "{yyyyMMdd}-{seq}", zone)
    const shown = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short" })
    for (let i = 0; i < 200; i++) {
      const at = new Date(Date.UTC(1900) + random() * 200 * 365 * 86_400_000)
      assert.equal(format.tag(at), `invoice.${shown.format(at).replaceAll("-", "")}`)
    }
  }
})

test("a format needs a zone by its name", () => {
  for (const zone of [undefined, "", "Mars/Olympus", 8]) {
    const shown = zone === undefined ? "undefined" : typeof zone === "string" ? `"${zone}"` : zone
    assert.throws(
      () => new NumberFormat("invoice", "{seq}", zone as string),
      fault("zone", `bad time zone: ${shown}, allowed is a name such as Asia/Shanghai`),
    )
  }
})

test("each argument has its own error", () => {
  const format = new NumberFormat("invoice", "INV-{yyyyMMdd}-{seq:6}", "UTC")
  const day = format.parseDate("2026-11-26")
  assert.throws(() => new NumberFormat("in voice", "{seq}", "UTC"), BadTagError)
  assert.throws(
    () => new NumberFormat("invoice", "{sequence}", "UTC"),
    fault(
      "format",
      'bad format of numbers: "{sequence}": {sequence}: allowed are yyyy or yy, MM, dd, or one {seq} or {seq:N}',
    ),
  )
  const allowed = "allowed are the years 1 to 9999, and a time that was set"
  assert.throws(() => format.tag(new Date(Number.NaN)), fault("date", `bad date: no time in UTC, ${allowed}`))
  // @ts-expect-error: a time is a Date
  assert.throws(() => format.tag("2026-11-26"), fault("date", `bad date: no time in UTC, ${allowed}`))
  assert.throws(
    () => format.tag(new Date(Date.UTC(10_000, 0))),
    fault("date", `bad date: +010000-01-01T00:00:00.000Z in UTC, ${allowed}`),
  )
  for (const text of [
    "2026-11-26T24:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-11-26\n",
    "2026-11-26T12:00:00z",
  ]) {
    assert.throws(
      () => format.parseDate(text),
      fault(
        "date",
        `bad date: "${text.replace("\n", "\\u000a")}", allowed is a day such as 2026-11-26, or a time of RFC 3339`,
      ),
    )
  }
  for (const id of [0n, -1n, 2n ** 63n]) {
    assert.throws(
      () => format.number(day, id),
      fault("seq", `bad sequence number: ${id}n, allowed is a bigint from 1 to 2^63-1`),
    )
  }
  assert.throws(
    // @ts-expect-error: an ID is no number
    () => format.number(day, 1),
    fault("seq", "bad sequence number: 1, allowed is a bigint from 1 to 2^63-1"),
  )
  assert.throws(
    () => format.parse("INV-20261126-1"),
    fault("number", 'no number of this format: "INV-{yyyyMMdd}-{seq:6}": "INV-20261126-1" is too short'),
  )
  // @ts-expect-error: a number of a document is a text
  assert.throws(() => format.parse(5), DocumentNumberError)
  // @ts-expect-error: an ID is no number
  const seq: number = format.parse("INV-20261126-000001").seq
  assert.equal(seq, 1n)
})

test("numbers come from the tag of the document's day, and errors from the client", async () => {
  const asked: unknown[] = []
  let last = 0n
  const ids = {
    next: async (tag: string, options?: CallOptions) => {
      checkTag(tag)
      asked.push([tag, options])
      return ++last
    },
    nextN: async (tag: string, n: number) => {
      asked.push([tag, n])
      const first = last + 1n
      last += BigInt(n)
      return new IdBatch([{ first, last }], n)
    },
  }
  const format = new NumberFormat("invoice", "INV-{yyyyMMdd}-{seq:3}", "Asia/Shanghai")
  assert.equal(format.dated, "yyyyMMdd")
  const at = new Date("2026-11-26T16:00:00Z")
  assert.equal(await format.next(ids, at, { timeout: 7 }), "INV-20261127-001")
  assert.deepEqual(await format.nextN(ids, at, 2), ["INV-20261127-002", "INV-20261127-003"])
  assert.deepEqual(asked, [
    ["invoice.20261127", { timeout: 7 }],
    ["invoice.20261127", 2],
  ])
  await assert.rejects(format.next(ids, new Date(Number.NaN)), DocumentNumberError)
  assert.equal(asked.length, 2)
  const failing = { next: () => Promise.reject(new ExhaustedError("used up (507)")) }
  await assert.rejects(format.next(failing, at), ExhaustedError)
})
