import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import { type Msg, type MsgHdrs, headers as newHeaders } from "@nats-io/nats-core"
import { isTraceparent } from "../src/arguments.js"
import { decodeReply } from "../src/decode.js"
import {
  BadArgumentError,
  BadCountError,
  BadReplyError,
  BusyError,
  decode,
  ErrorReplyError,
  ExhaustedError,
  MalformedRequestError,
  NoSuchTagError,
  StrictTagError,
  UnavailableError,
} from "../src/index.js"

/** The contract as data, which all clients share. */
const vectors = JSON.parse(
  readFileSync(new URL("../../../../testdata/vectors.json", import.meta.url), "utf8"),
)

type Text = string | { repeat: string; times: number } | { base64: string } | Text[]

function bytes(text: Text): Buffer {
  if (typeof text === "string") return Buffer.from(text)
  if (Array.isArray(text)) return Buffer.concat(text.map(bytes))
  if ("base64" in text) return Buffer.from(text.base64, "base64")
  return Buffer.alloc(Buffer.byteLength(text.repeat) * text.times, text.repeat)
}

interface Case {
  status?: string
  headers?: Record<string, Text[]>
  body: Text
  n: string
  ranges?: string[]
  error?: string
  code?: number
  text?: string
  why: string
}

const kinds: Record<string, abstract new (...args: never[]) => unknown> = {
  bad_reply: BadReplyError,
  malformed: MalformedRequestError,
  no_tag: NoSuchTagError,
  strict: StrictTagError,
  busy: BusyError,
  unavailable: UnavailableError,
  exhausted: ExhaustedError,
  code: ErrorReplyError,
}

/** Compares what reading a reply returns or throws. Counts above 2^53−1 are no numbers. */
function compare(c: Case, read: (n: number) => ReturnType<typeof decodeReply>): void {
  const n = Number(c.n)
  if (!Number.isSafeInteger(n)) return
  let got: ReturnType<typeof decodeReply>
  try {
    got = read(n)
  } catch (error) {
    assert.ok(c.error !== undefined && error instanceof kinds[c.error]!, `${c.why}: ${error}`)
    const { message, code } = error as ErrorReplyError
    assert.equal(code, c.code, c.why)
    assert.ok(message.includes(c.text ?? "") && message.length < 300, `${c.why}: ${message}`)
    assert.doesNotMatch(message, /[\r\n\0]/)
    return
  }
  if (got === "no_responders") {
    assert.equal(c.error, got, c.why)
    return
  }
  assert.equal(c.error, undefined, `${c.why}: ${got.ranges.length} ranges`)
  assert.deepEqual(
    got.ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)),
    c.ranges,
    c.why,
  )
  assert.equal(got.length, n)
}

test("traces of vectors.json", () => {
  for (const { value, sent, why } of vectors.traceparents.cases) {
    assert.equal(isTraceparent(bytes(value).toString()), sent, why)
  }
})

test("bodies of vectors.json", () => {
  for (const c of vectors.bodies.cases as Case[]) compare(c, (n) => decode(bytes(c.body), n))
})

test("replies of vectors.json", () => {
  for (const c of vectors.replies.cases as Case[]) {
    let headers: MsgHdrs | undefined
    if (c.status !== undefined || c.headers !== undefined) {
      headers = c.status === undefined ? newHeaders() : newHeaders(Number(c.status), "status")
      for (const [name, values] of Object.entries(c.headers ?? {})) {
        for (const value of values) headers.append(name, bytes(value).toString())
      }
    }
    const reply = { data: bytes(c.body), headers } as Pick<Msg, "data" | "headers">
    compare(c, (n) => decodeReply(reply, n))
  }
})

test("codes of vectors.json", () => {
  for (const { value, error, retryable, why } of vectors.codes.cases) {
    const headers = newHeaders()
    headers.set("Nats-Service-Error-Code", value)
    assert.throws(
      () => decodeReply({ data: bytes("1"), headers }, 1),
      (e) => e instanceof kinds[error]! && (e as ErrorReplyError).retryable === retryable,
      why,
    )
  }
})

test("all lengths of numbers are read exactly, as bytes", () => {
  for (let digits = 1; digits <= 18; digits++) {
    for (const id of [10n ** BigInt(digits - 1), 10n ** BigInt(digits) - 1n]) {
      assert.deepEqual([...decode(Buffer.from(String(id)), 1)], [id])
    }
  }
  for (const id of [2n ** 53n + 1n, 2n ** 62n + 1n, 2n ** 63n - 1n]) {
    assert.deepEqual([...decode(Buffer.from(`${id - 1n}-${id}`), 2)], [id - 1n, id])
  }
})

test("a range is not expanded before its size is checked, and lines beyond n are not read", () => {
  assert.throws(() => decode(Buffer.from("1-9223372036854775807"), 3), /more than the 3 IDs requested/)
  assert.throws(() => decode(Buffer.from("1\n2\nx"), 1), /more than the 1 IDs requested/)
  const all = decode(Buffer.from(`1-${Number.MAX_SAFE_INTEGER}`), Number.MAX_SAFE_INTEGER)
  assert.equal(all.length, Number.MAX_SAFE_INTEGER)
})

test("an error quotes at most 40 characters, and only visible ones", () => {
  const long = bytes({ repeat: "9", times: 1 << 20 })
  assert.throws(() => decode(long, 1), {
    message: `malformed reply: "${"9".repeat(40)}" is not a range of IDs`,
  })
  assert.throws(() => decode(Buffer.from("\ufeff1\u001b"), 1), {
    message: 'malformed reply: "\\ufeff1\\u001b" is not a range of IDs',
  })
})

test("bad arguments of decode", () => {
  assert.throws(() => decode(Buffer.from("1"), 0), BadCountError)
  // @ts-expect-error: a count is a number
  assert.throws(() => decode(Buffer.from("1"), 1n), BadCountError)
  // @ts-expect-error: a body is bytes
  assert.throws(() => decode("1", 1), BadArgumentError)
})
