import assert from "node:assert/strict"
import { test } from "node:test"
import { IdBatch } from "../src/index.js"

test("a batch yields the IDs of its ranges, up to 2^63−1", () => {
  const last = 2n ** 63n - 1n
  const batch = new IdBatch(
    [
      { first: 1n, last: 3n },
      { first: last, last },
    ],
    4,
  )
  assert.deepEqual([...batch], [1n, 2n, 3n, last])
  // @ts-expect-error: an ID is never a number
  const id: number = [...batch][0]
  assert.equal(id, 1n)
})
