import assert from "node:assert/strict"
import { test } from "node:test"
import { setImmediate } from "node:timers/promises"
import { Idworker } from "../src/client.js"
import {
  BadConfigError,
  BadCountError,
  BadTagError,
  BufferEmptyError,
  CancelledError,
  ClosedError,
  MalformedRequestError,
} from "../src/errors.js"
import type { Ids } from "../src/ids.js"
import { withIds } from "../src/rows.js"
import { InMemoryIdworker } from "../src/testing.js"
import { FakeConnection } from "./fake.mjs"

test("IDs count from 1 for each tag, by calls and by buffers, and each is there once", async () => {
  const ids = new InMemoryIdworker()
  const orders = ids.prefetch("order")
  assert.deepEqual(
    [await ids.next("order"), ...(await ids.nextN("order", 3)), await orders.next()],
    [1n, 2n, 3n, 4n, 5n],
  )
  await orders.ready(2)
  const { take } = orders
  assert.deepEqual([take(), take()], [6n, 7n])
  assert.deepEqual(await withIds(orders, [{ name: "a" }]), [{ id: 8n, name: "a" }])
  assert.equal(await ids.next("ticket"), 1n)
  assert.deepEqual(
    [
      await ids.snowflake(),
      ...(await ids.snowflakeN(2)),
      await ids.prefetchSnowflake().next(),
      await ids.prefetchSnowflake().next(),
    ],
    [1n, 2n, 3n, 4n, 5n],
  )
})

test("a take without ready fails always, also after IDs were taken", async () => {
  const orders = new InMemoryIdworker().prefetch("order")
  assert.throws(orders.take, BufferEmptyError)
  await orders.next()
  assert.throws(orders.take, BufferEmptyError)
  await orders.ready(1)
  orders.take()
  assert.throws(orders.take, BufferEmptyError)
})

test("ready announces IDs for its turn: callers at once get theirs, and those of earlier turns do not add up", async () => {
  const orders = new InMemoryIdworker().prefetch("order")
  const rows = (n: number) => Array.from({ length: n }, (_, i) => ({ name: `${i}` }))
  const inserted = await Promise.all([1, 2, 3].map((n) => withIds(orders, rows(n))))
  assert.equal(new Set(inserted.flat().map(({ id }) => id)).size, 6)
  assert.throws(orders.take, BufferEmptyError)

  await orders.ready(1)
  await setImmediate()
  await orders.next()
  await orders.ready(1)
  orders.take()
  assert.throws(orders.take, BufferEmptyError)
})

test("a call for more IDs than a worker gives by default is refused", async () => {
  const ids = new InMemoryIdworker()
  for (const call of [ids.nextN("order", 10_001), ids.snowflakeN(10_001)]) {
    await assert.rejects(call, (error) => error instanceof MalformedRequestError && error.code === 400)
  }
  assert.equal((await ids.nextN("order", 10_000)).length, 10_000)
  await ids.prefetch("order").ready(10_001) // a buffer splits it
})

// The same calls against both, so that a test does not accept what the application cannot do.
for (const [name, make] of Object.entries<() => Ids>({
  "in memory": () => new InMemoryIdworker(),
  "over NATS": () => new Idworker(new FakeConnection().nats),
})) {
  test(`arguments are checked alike: ${name}`, async () => {
    const ids = make()
    await assert.rejects(ids.next("a b"), BadTagError)
    await assert.rejects(ids.nextN("order", 0), BadCountError)
    await assert.rejects(ids.snowflakeN(1.5), BadCountError)
    await assert.rejects(ids.next("order", { timeout: 0 }), BadConfigError)
    await assert.rejects(ids.snowflake({ signal: AbortSignal.abort() }), CancelledError)
    assert.throws(() => ids.prefetch(""), BadTagError)
    for (const options of [{ runway: -1 }, { limit: 0 }, { maxBatch: 1e10 }, { limmit: 5 } as object]) {
      assert.throws(() => ids.prefetch("order", options), BadConfigError)
      assert.throws(() => ids.prefetchSnowflake(options), BadConfigError)
    }
    await assert.rejects(ids.prefetch("order").ready(0), BadCountError)
    await assert.rejects(ids.prefetch("order", { limit: 3 }).ready(4), BadCountError)
    await assert.rejects(ids.prefetchSnowflake().ready(1_000_001), BadCountError)
    await assert.rejects(ids.prefetch("order").next({ timeout: -1 }), BadConfigError)

    const [orders, tickets] = [ids.prefetch("order"), ids.prefetch("ticket")]
    await orders.close()
    await assert.rejects(orders.next(), ClosedError)
    await assert.rejects(orders.ready(1), ClosedError)
    assert.throws(orders.take, ClosedError)
    await ids.close()
    await ids.close()
    await assert.rejects(ids.next("order"), ClosedError)
    await assert.rejects(tickets.ready(1), ClosedError)
    assert.throws(tickets.take, ClosedError)
  })
}
