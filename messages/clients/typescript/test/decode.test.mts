import assert from "node:assert/strict"
import { test } from "node:test"
import { BadArgumentError, BadCountError, decode } from "../src/index.js"

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
  const long = Buffer.alloc(1 << 20, "9")
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
