import assert from "node:assert/strict"
import { test } from "node:test"
import { checkCount, checkSignal, checkTimeout } from "../src/arguments.js"
import {
  BadConfigError,
  BadCountError,
  BadPrefixError,
  BadTagError,
  checkPrefix,
  checkTag,
} from "../src/index.js"

/** A value of a JavaScript caller. */
// biome-ignore lint/suspicious/noExplicitAny: no type stops such callers
type Anything = any

test("tags", () => {
  for (const tag of ["a", "Order_1-2", "a.b.C", "0", "x".repeat(128)]) checkTag(tag)
  for (const [tag, message] of [
    ["", "malformed tag: 0 bytes, allowed is 1 to 128"],
    ["x".repeat(129), "malformed tag: 129 bytes, allowed is 1 to 128"],
    ["é".repeat(129), "malformed tag: 258 bytes, allowed is 1 to 128"],
    [".a", "malformed tag: empty token at byte 0, allowed are tokens joined by single dots"],
    ["a..b", "malformed tag: empty token at byte 2, allowed are tokens joined by single dots"],
    ["a.", "malformed tag: empty token at byte 1, allowed are tokens joined by single dots"],
    ["a b", "malformed tag: ' ' at byte 1, allowed are A-Z a-z 0-9 _ - and dots between tokens"],
    ["a\n", "malformed tag: '\\u000a' at byte 1, allowed are A-Z a-z 0-9 _ - and dots between tokens"],
    ["a😀", "malformed tag: '😀' at byte 1, allowed are A-Z a-z 0-9 _ - and dots between tokens"],
    ["a\ud800", "malformed tag: '\\ud800' at byte 1, allowed are A-Z a-z 0-9 _ - and dots between tokens"],
    [7, "malformed tag: 7, allowed is a string"],
    [null, "malformed tag: null, allowed is a string"],
    [undefined, "malformed tag: undefined, allowed is a string"],
    [["order"], "malformed tag: an object, allowed is a string"],
  ] as [Anything, string][]) {
    assert.throws(
      () => checkTag(tag),
      (error) => error instanceof BadTagError && error.message === message && !error.retryable,
    )
  }
})

test("prefixes", () => {
  for (const prefix of ["a", "ids", "eu-west_1", "x".repeat(32)]) checkPrefix(prefix)
  for (const [prefix, message] of [
    ["", "bad prefix: 0 bytes, allowed is 1 to 32"],
    ["x".repeat(33), "bad prefix: 33 bytes, allowed is 1 to 32"],
    ["Ids", "bad prefix: \"Ids\" has 'I' at byte 0, allowed are a-z 0-9 _ -"],
    ["a.b", "bad prefix: \"a.b\" has '.' at byte 1, allowed are a-z 0-9 _ -"],
    [5n, "bad prefix: 5n, allowed is a string"],
  ] as [Anything, string][]) {
    assert.throws(
      () => checkPrefix(prefix),
      (error) => error instanceof BadPrefixError && error.message === message,
    )
  }
})

test("a count is a safe integer of 1 or more, whatever JavaScript would make of it", () => {
  for (const n of [1, 10_000, Number.MAX_SAFE_INTEGER]) checkCount(n)
  for (const [n, shown] of [
    [0, "0"],
    [-1, "-1"],
    [1.5, "1.5"],
    [Number.NaN, "NaN"],
    [Number.POSITIVE_INFINITY, "Infinity"],
    [2 ** 53, "9007199254740992"],
    ["5", '"5"'],
    [5n, "5n"],
    [true, "true"],
    [undefined, "undefined"],
    [{ valueOf: () => 5 }, "an object"],
    [() => 5, "a function"],
    [Symbol("5"), "a symbol"],
  ] as [Anything, string][]) {
    assert.throws(
      () => checkCount(n),
      (error) =>
        error instanceof BadCountError &&
        error.message === `bad count: ${shown}, allowed is an integer from 1 to 2^53-1`,
    )
  }
})

test("a time-out is above 0 and fits a timer of Node, which ends longer ones at once", () => {
  for (const timeout of [0.5, 1, 2 ** 31 - 1]) checkTimeout(timeout)
  for (const timeout of [
    0,
    -1,
    Number.NaN,
    2 ** 31,
    Number.POSITIVE_INFINITY,
    "5000",
    5000n,
    true,
    null,
  ] as Anything[]) {
    assert.throws(
      () => checkTimeout(timeout),
      (error) =>
        error instanceof BadConfigError && /^bad timeout: .*, allowed is above 0 ms/.test(error.message),
    )
  }
})

test("signals", () => {
  checkSignal(new AbortController().signal)
  for (const signal of [null, {}, new AbortController(), "abort"] as Anything[]) {
    assert.throws(
      () => checkSignal(signal),
      (error) =>
        error instanceof BadConfigError && /^bad signal: .*, allowed is an AbortSignal$/.test(error.message),
    )
  }
})
