import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import { type Msg, type MsgHdrs, headers as newHeaders } from "@nats-io/nats-core"
import { invisible, isTraceparent } from "../src/arguments.js"
import type { IdBatch } from "../src/batch.js"
import { Idworker } from "../src/client.js"
import { decodeReply } from "../src/decode.js"
import {
  BadCountError,
  BadPrefixError,
  BadReplyError,
  BadTagError,
  BusyError,
  checkPrefix,
  checkTag,
  decode,
  ErrorReplyError,
  ExhaustedError,
  MalformedRequestError,
  NoSuchTagError,
  StrictTagError,
  UnavailableError,
} from "../src/index.js"
import { DocumentNumberError, NumberFormat } from "../src/number.js"
import { OpaqueIdError, OpaqueIds } from "../src/opaque.js"
import { FakeConnection } from "./fake.mjs"

// The contract as data, whose cases all languages share.

type Text = string | { repeat: string; times: number } | { base64: string } | Text[]

/** What each case says. */
interface Case {
  why: string
  /** The kind of the error, if one is due. */
  error?: string
}

interface Count extends Case {
  n: string
  body: Text
}

interface Reply extends Case {
  status?: string
  headers?: Record<string, Text[]>
  body: Text
  n: string
  ranges?: string[]
  code?: number
  text?: string
}

interface Code extends Case {
  value: string
  retryable: boolean
}

interface KeyFile extends Case {
  file: string
  fingerprint?: string
}

/** A case of an ID, or of what is opened. */
interface Sealing extends Case {
  keys: string
  form: "number" | "text"
  bits: number
  tag: string
  prefix?: string
  id?: string
  sealed?: string
}

/** A case of a number that is made, of one that is read, or of a format alone. */
interface Document extends Case {
  base: string
  format: string
  zone: string
  at?: string
  seq?: string
  tag?: string
  number?: string
  parse?: string
}

interface Vectors {
  tags: { cases: (Case & { tag: Text })[] }
  prefixes: { cases: (Case & { prefix: Text })[] }
  counts: { cases: Count[] }
  traceparents: { cases: (Case & { value: Text; sent: boolean })[] }
  bodies: { cases: Reply[] }
  replies: { cases: Reply[] }
  codes: { cases: Code[] }
  opaque: {
    keys: Record<string, KeyFile>
    seal: Sealing[]
    open: Sealing[]
    bad: Sealing[]
    bad_keys: KeyFile[]
  }
  numbers: { cases: Document[] }
}

const vectors: Vectors = JSON.parse(
  readFileSync(new URL("../../../../testdata/vectors.json", import.meta.url), "utf8"),
)

function bytes(text: Text): Buffer {
  if (typeof text === "string") return Buffer.from(text)
  if (Array.isArray(text)) return Buffer.concat(text.map(bytes))
  if ("base64" in text) return Buffer.from(text.base64, "base64")
  return Buffer.alloc(Buffer.byteLength(text.repeat) * text.times, text.repeat)
}

const kinds: Record<string, abstract new (...args: never[]) => Error> = {
  tag: BadTagError,
  prefix: BadPrefixError,
  count: BadCountError,
  bad_reply: BadReplyError,
  malformed: MalformedRequestError,
  no_tag: NoSuchTagError,
  strict: StrictTagError,
  busy: BusyError,
  unavailable: UnavailableError,
  exhausted: ExhaustedError,
  code: ErrorReplyError,
}

/** Checks that a case has an error of its kind, with a text that is fit for a log. Returns it. */
function wantError(c: Case, error: unknown): ErrorReplyError {
  assert.ok(c.error !== undefined && error instanceof Error, `${c.why}: ${error}`)
  assert.equal(error.constructor, kinds[c.error], `${c.why}: ${error}`)
  assert.match(error.message, /^[^\r\n\0]{1,300}$/, c.why)
  return error as ErrorReplyError
}

/** Compares whether a check throws. */
function compare(c: Case, check: () => void): void {
  try {
    check()
  } catch (error) {
    wantError(c, error)
    return
  }
  assert.equal(c.error, undefined, c.why)
}

test("tags of vectors.json", () => {
  for (const c of vectors.tags.cases) compare(c, () => checkTag(bytes(c.tag).toString()))
})

test("prefixes of vectors.json", () => {
  for (const c of vectors.prefixes.cases) compare(c, () => checkPrefix(bytes(c.prefix).toString()))
})

/** Returns the body of a request for n IDs, or the error with which nothing is sent. */
async function requested(n: number): Promise<string | Error> {
  const connection = new FakeConnection()
  const ids = new Idworker(connection.nats)
  const sent = new Promise<string>((resolve) => {
    connection.onSent = ({ body }) => resolve(body)
  })
  const failed = ids.snowflakeN(n).then(
    () => new Error("served"),
    (error: Error) => error,
  )
  const got = await Promise.race([sent, failed])
  await ids.close() // ends the call
  if (got instanceof Error) assert.equal(connection.sent.length, 0)
  return got
}

// A double holds counts up to 2^53−1; larger ones are refused.
test("counts of vectors.json", async () => {
  for (const c of vectors.counts.cases) {
    const n = /^-?\d+$/.test(c.n) ? Number(c.n) : Number.NaN
    const got = await requested(n)
    if (typeof got === "string" || (c.error === undefined && Number.isSafeInteger(n))) {
      assert.ok(c.error === undefined, c.why)
      assert.equal(got, bytes(c.body).toString(), c.why)
    } else {
      wantError({ ...c, error: "count" }, got)
    }
  }
})

test("traces of vectors.json", () => {
  for (const { value, sent, why } of vectors.traceparents.cases) {
    assert.equal(isTraceparent(bytes(value).toString()), sent, why)
  }
})

function texts({ ranges }: IdBatch): string[] {
  return ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`))
}

/** Compares what reading a reply returns or throws. Counts above 2^53−1 are no numbers. */
function compareReply(c: Reply, read: (n: number) => ReturnType<typeof decodeReply>): void {
  const n = Number(c.n)
  if (!Number.isSafeInteger(n)) return
  let got: ReturnType<typeof decodeReply>
  try {
    got = read(n)
  } catch (error) {
    const { message, code } = wantError(c, error)
    assert.equal(code, c.code, c.why)
    assert.ok(message.includes(c.text ?? ""), `${c.why}: ${message}`)
    return
  }
  if (got === "no_responders") {
    assert.equal(c.error, got, c.why)
    return
  }
  assert.equal(c.error, undefined, c.why)
  assert.deepEqual(texts(got), c.ranges, c.why)
  assert.equal(got.length, n)
}

test("bodies of vectors.json", () => {
  for (const c of vectors.bodies.cases) compareReply(c, (n) => decode(bytes(c.body), n))
})

test("replies of vectors.json", () => {
  for (const c of vectors.replies.cases) {
    let headers: MsgHdrs | undefined
    if (c.status !== undefined || c.headers !== undefined) {
      headers = c.status === undefined ? newHeaders() : newHeaders(Number(c.status), "status")
      for (const [name, values] of Object.entries(c.headers ?? {})) {
        for (const value of values) headers.append(name, bytes(value).toString())
      }
    }
    const reply = { data: bytes(c.body), headers } as Pick<Msg, "data" | "headers">
    compareReply(c, (n) => decodeReply(reply, n))
  }
})

test("codes of vectors.json", () => {
  for (const c of vectors.codes.cases) {
    const headers = newHeaders()
    headers.set("Nats-Service-Error-Code", c.value)
    assert.throws(
      () => decodeReply({ data: bytes("1"), headers }, 1),
      (thrown) => {
        const { code, retryable } = wantError(c, thrown)
        assert.deepEqual([code, retryable], [Number(c.value), c.retryable], c.why)
        return true
      },
    )
  }
})

/** Checks that a case passes, or has an error that says its fault. */
function expectFault({ why, error }: Case, check: () => void): void {
  const [got, shown] = outcomeOf(check)
  assert.equal(got, error, `${why}: ${shown}`)
  assert.ok(isLine(shown), `${why}: ${shown}`)
}

test("opaque IDs of vectors.json", () => {
  const { opaque } = vectors
  for (const keys of [...Object.values(opaque.keys), ...opaque.bad_keys]) {
    expectFault(keys, () => assert.equal(OpaqueIds.parse(keys.file).fingerprint, keys.fingerprint))
  }
  for (const sealing of [...opaque.seal, ...opaque.open, ...opaque.bad]) {
    expectFault(sealing, () => {
      const { seal, open } = codecOf(OpaqueIds.parse(opaque.keys[sealing.keys]!.file), sealing)
      if (sealing.id !== undefined && !opaque.open.includes(sealing)) {
        assert.equal(seal(BigInt(sealing.id)), sealing.sealed)
      }
      if (sealing.sealed !== undefined) assert.equal(String(open(sealing.sealed)), sealing.id)
    })
  }
})

test("numbers of documents of vectors.json", () => {
  for (const document of vectors.numbers.cases) expectFault(document, () => checkDocument(document))
})

/** Returns either codec, with decimals as sealed numbers. */
function codecOf(keys: OpaqueIds, { form, tag, prefix, bits }: Sealing) {
  if (form === "text") {
    const texts = keys.texts(tag, prefix!)
    return { seal: (id: bigint) => texts.seal(id), open: (text: string) => texts.open(text) }
  }
  if (bits === 53) {
    const numbers = keys.numbers(tag, bits)
    return {
      seal: (id: bigint) => String(numbers.seal(id)),
      open: (text: string) => numbers.open(Number(text)),
    }
  }
  const numbers = keys.numbers(tag, bits as 63)
  return {
    seal: (id: bigint) => String(numbers.seal(id)),
    open: (text: string) => numbers.open(BigInt(text)),
  }
}

function checkDocument(document: Document): void {
  const { base, zone, at, parse } = document
  const format = new NumberFormat(base, document.format, zone)
  if (parse !== undefined) {
    format.parse(parse)
  } else if (at !== undefined) {
    const date = format.parseDate(at)
    const seq = BigInt(document.seq!)
    const number = format.number(date, seq)
    assert.deepEqual([number, format.tag(date)], [document.number, document.tag])
    const read = format.parse(number)
    assert.deepEqual([read.base, read.tag, read.seq], [base, document.tag, seq])
  }
}

/** Returns the file's name of the error, if any, and what to show of it. */
function outcomeOf(check: () => void): [kind: string | undefined, shown: string] {
  try {
    check()
    return [undefined, "no error"]
  } catch (error) {
    if (error instanceof BadTagError) return ["tag", error.message]
    if (error instanceof OpaqueIdError || error instanceof DocumentNumberError) {
      return [error.fault.replace("_", " "), error.message]
    }
    return ["none of the client's", String(error)]
  }
}

function isLine(message: string): boolean {
  return message.length <= 350 && !invisible.test(message)
}
