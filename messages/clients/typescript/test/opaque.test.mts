import assert from "node:assert/strict"
import { randomBytes } from "node:crypto"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { test } from "node:test"
import { inspect } from "node:util"
import { BadArgumentError, BadTagError } from "../src/index.js"
import { OpaqueIdError, type OpaqueIdFault, OpaqueIds } from "../src/opaque.js"
import { randomOf } from "./random.mjs"

const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
const keys = OpaqueIds.parse(`number ${key}\n1 ${key}\n`)

function fault(kind: OpaqueIdFault, text: string) {
  return (error: unknown) => {
    assert.ok(error instanceof OpaqueIdError && error instanceof BadArgumentError)
    assert.deepEqual([error.fault, error.message, error.retryable], [kind, text, false])
    return true
  }
}

test("the example of the documentation", () => {
  const orders = keys.texts("order", "ord")
  assert.equal(orders.seal(1n), "ord_164g7p0fvrzk7g6")
  assert.equal(orders.open("ord_164g7p0fvrzk7g6"), 1n)
})

test("any ID is sealed within its form, and opens to itself", (t) => {
  const random = randomOf(t)
  const numbers = keys.numbers("order", 63)
  const doubles = keys.numbers("order", 53)
  const texts = keys.texts("order", "")
  for (let i = 0; i < 300; i++) {
    const id =
      BigInt.asUintN(1 + Math.floor(random() * 63), BigInt(Math.floor(random() * 2 ** 53)) << 10n) + 1n
    const short = BigInt.asUintN(53, id) || 1n
    const sealed = numbers.seal(id)
    const double = doubles.seal(short)
    const text = texts.seal(id)
    assert.ok(sealed >= 1n && sealed < 2n ** 63n)
    assert.ok(Number.isSafeInteger(double) && double >= 1)
    assert.match(text, /^_1[0-7][0-9a-hjkmnp-tv-z]{13}$/)
    assert.deepEqual([numbers.open(sealed), doubles.open(double), texts.open(text)], [id, short, id])
  }
})

test("only sealed numbers of 53 bits are of the type number", () => {
  const numbers = keys.numbers("order", 63)
  const doubles = keys.numbers("order", 53)
  const texts = keys.texts("order", "ord")
  const sealed: number = doubles.seal(1n)
  assert.equal(typeof sealed, "number")
  // @ts-expect-error: a sealed number of 63 bits is no number
  const wide: number = numbers.seal(1n)
  assert.equal(typeof wide, "bigint")
  // @ts-expect-error: an ID is no number
  const id: number = doubles.open(sealed)
  assert.equal(id, 1n)
  const refused = [
    // @ts-expect-error: an ID is no number
    [() => numbers.seal(1), "ID 1, allowed is a bigint from 1 to 2^63-1"],
    // @ts-expect-error: an ID is no number
    [() => doubles.seal(1), "ID 1, allowed is a bigint from 1 to 2^53-1"],
    // @ts-expect-error: an ID is no number
    [() => texts.seal(1), "ID 1, allowed is a bigint from 1 to 2^63-1"],
    // @ts-expect-error: a sealed number of 63 bits is no number
    [() => numbers.open(1), "sealed number 1, allowed is a bigint from 1 to 2^63-1"],
    // @ts-expect-error: a sealed number of 53 bits is a number
    [() => doubles.open(1n), "sealed number 1n, allowed is a number from 1 to 2^53-1"],
    [() => doubles.open(1.5), "sealed number 1.5, allowed is a number from 1 to 2^53-1"],
    [() => doubles.open(0), "sealed number 0, allowed is a number from 1 to 2^53-1"],
    [() => doubles.open(2 ** 53), "sealed number 9007199254740992, allowed is a number from 1 to 2^53-1"],
    [() => doubles.seal(2n ** 53n), "ID 9007199254740992n, allowed is a bigint from 1 to 2^53-1"],
  ] as const
  for (const [call, why] of refused) assert.throws(call, fault("range", `outside the width: ${why}`))
})

test("arguments of codecs are checked", () => {
  assert.throws(() => keys.numbers("a b", 63), BadTagError)
  assert.throws(() => keys.texts("", "ord"), BadTagError)
  // @ts-expect-error: another width
  assert.throws(() => keys.numbers("order", 64), fault("bits", "bad width: 64 bits, allowed are 63 and 53"))
  assert.throws(
    () => keys.texts("order", "Ord"),
    fault("prefix", 'wrong prefix: "Ord", allowed are a-z 0-9 _'),
  )
  assert.throws(
    // @ts-expect-error: a text is a string
    () => keys.texts("order", "ord").open(5),
    fault("prefix", "wrong prefix: 5, allowed is a string that begins with ord_"),
  )
})

test("a key file is loaded, and named by its fingerprint", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "opaque"))
  t.after(() => rm(folder, { recursive: true }))
  const path = join(folder, "opaque.keys")
  await writeFile(path, Buffer.from(`# Schl\xfcssel\nnumber ${key}\r\n`, "latin1"))
  const loaded = await OpaqueIds.load(path)
  assert.equal(loaded.fingerprint, "number:af27d53ede339836")
  assert.equal(`${loaded}`, "opaque keys number:af27d53ede339836")
})

test("no error and no print shows a key", () => {
  const [first, second] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")]
  const own = OpaqueIds.parse(`number ${first}\n1 ${second}\n`)
  const shown: string[] = []
  for (const value of [own, own.numbers("order", 63), own.texts("order", "ord")]) {
    shown.push(inspect(value, { depth: 9, showHidden: true }), JSON.stringify(value), String(value))
  }
  for (const bad of [
    first,
    `${first} ${second}`,
    `1 ${first}${second}`,
    `1 ${first.slice(1)}`,
    `${first} 1`,
    `number ${first}\nnumber ${second}`,
  ]) {
    assert.throws(
      () => OpaqueIds.parse(bad),
      (error: Error) => shown.push(inspect(error)) > 0,
    )
  }
  for (const text of shown) {
    assert.ok(!text.includes(first.slice(1, 9)) && !text.includes(second.slice(1, 9)), text)
    assert.doesNotMatch(text, /(\d+,? ){15}|([0-9a-f]{2} ){15}/)
  }
})
