import assert from "node:assert/strict"
import { afterEach, test } from "node:test"
import { clock } from "../src/clock.js"
import {
  BadConfigError,
  BadCountError,
  BadPrefixError,
  BadTagError,
  type CallOptions,
  ClosedError,
  type IdBatch,
  Idworker,
  type IdworkerError,
  type IdworkerOptions,
} from "../src/index.js"
import { FakeConnection, pass, settled } from "./fake.mjs"
import { VirtualTime } from "./virtual-time.mjs"

const real = { ...clock }
afterEach(() => Object.assign(clock, real))

function virtualTime(): VirtualTime {
  const time = new VirtualTime(1)
  Object.assign(clock, time)
  return time
}

/** Whether a promise has been rejected, and why; undefined if it is pending. */
async function rejection(promise: Promise<unknown>): Promise<IdworkerError | undefined> {
  let error: IdworkerError | undefined
  promise.catch((e) => {
    error = e
  })
  await settled()
  return error
}

// biome-ignore lint/suspicious/noExplicitAny: no type stops callers in JavaScript
type Anything = any

/** A client, and a connection that serves each request with the IDs from 7 on. */
function served(options?: IdworkerOptions): { ids: Idworker; connection: FakeConnection } {
  const connection = new FakeConnection()
  connection.onSent = (sent) => {
    const n = Number(sent.body || 1)
    queueMicrotask(() => connection.serve(sent, n === 1 ? "7" : `7-${6 + n}`))
  }
  return { ids: new Idworker(connection.nats, options), connection }
}

test("IDs are bigints, and no type lets them become numbers", async () => {
  const { ids } = served()
  const id: bigint = await ids.next("order")
  const batch: IdBatch = await ids.nextN("order", 3)
  assert.deepEqual([id, await ids.snowflake(), ...batch], [7n, 7n, 7n, 8n, 9n])
  assert.equal((await ids.snowflakeN(2)).length, 2)
  // @ts-expect-error: an ID is never a number
  const number: number = await ids.next("order")
  // @ts-expect-error: nor is a snowflake ID
  const flake: number = await ids.snowflake()
  // @ts-expect-error: nor are those of a batch
  const numbers: number[] = [...batch]
  // @ts-expect-error: nor is the end of a range
  const first: number = batch.ranges[0]!.first
  // @ts-expect-error: nor is a buffered ID
  const take: () => number = ids.prefetch("order").take
  // @ts-expect-error: numbers and IDs do not mix
  assert.throws(() => id + 1, TypeError)
  assert.ok([number, flake, first, ...numbers].every((each) => typeof each === "bigint"))
  assert.equal(typeof take, "function")
})

test("bad arguments reject, say what is allowed, and send nothing", async () => {
  const { ids, connection } = served()
  const order = "order" as Anything
  const bad = async (call: () => Promise<unknown>, kind: Anything, text: RegExp) => {
    const error: IdworkerError = await call().then(
      () => assert.fail("it was served"),
      (e) => e,
    )
    assert.ok(error instanceof kind, `${error}`)
    assert.match(error.message, text)
    assert.deepEqual([error.tries, error.retryable], [0, false])
  }
  await bad(() => ids.next(""), BadTagError, /^malformed tag: 0 bytes, allowed is 1 to 128$/)
  await bad(() => ids.nextN("a b", 0), BadTagError, /^malformed tag: ' ' at byte 1/)
  // @ts-expect-error: a count is a number
  await bad(() => ids.nextN("order", 5n), BadCountError, /^bad count: 5n, allowed is an integer/)
  // @ts-expect-error: nor is it a text
  await bad(() => ids.snowflakeN("5"), BadCountError, /^bad count: "5"/)
  // @ts-expect-error: a time-out is a number
  const text: CallOptions = { timeout: "5s" }
  await bad(() => ids.next("order", text), BadConfigError, /^bad timeout: "5s", allowed is above 0 ms/)
  await bad(() => ids.next(order, { timeout: 0 }), BadConfigError, /^bad timeout: 0/)
  await bad(() => ids.nextN(order, 1, { timeout: Number.NaN }), BadConfigError, /^bad timeout: NaN/)
  await bad(() => ids.snowflake({ signal: {} as Anything }), BadConfigError, /^bad signal: an object/)
  await bad(
    () => ids.next(order, 5000 as Anything),
    BadConfigError,
    /^bad options: 5000, allowed is an object$/,
  )
  const misspelled = { timeuot: 1 } as Anything
  const unknown = /^bad options: unknown option "timeuot", allowed are timeout, signal$/
  await bad(() => ids.next("order", misspelled), BadConfigError, unknown)
  await bad(() => ids.snowflakeN(2, misspelled), BadConfigError, unknown)
  await bad(() => ids.prefetch("order").next(misspelled), BadConfigError, unknown)
  await bad(() => ids.prefetch("order").ready(1, misspelled), BadConfigError, unknown)
  assert.equal(connection.sent.length, 0)
})

test("a bad client is refused when it is made", () => {
  const { nats } = new FakeConnection()
  assert.throws(() => new Idworker(nats, { prefix: "Ids" }), BadPrefixError)
  assert.throws(() => new Idworker(nats, { timeout: -1 }), BadConfigError)
  assert.throws(() => new Idworker(nats, null as Anything), BadConfigError)
  // @ts-expect-error: a value would be that of all calls
  assert.throws(() => new Idworker(nats, { traceparent: "00-1-2-01" }), {
    message: 'bad traceparent: "00-1-2-01", allowed is a function',
  })
  // @ts-expect-error: a logger has two methods
  assert.throws(() => new Idworker(nats, { log: console.warn }), {
    message: "bad log: a function, allowed is an object with warn and info, such as console",
  })
  // @ts-expect-error: no such option
  assert.throws(() => new Idworker(nats, { timeuot: 1 }), {
    message: 'bad options: unknown option "timeuot", allowed are prefix, timeout, traceparent, log',
  })
  // @ts-expect-error: no such option
  assert.throws(() => new Idworker(nats).prefetch("order", { max_batch: 5 }), {
    message: 'bad options: unknown option "max_batch", allowed are runway, limit, maxBatch',
  })
  for (const connection of [undefined, Promise.resolve(nats), "nats://127.0.0.1"] as Anything[]) {
    assert.throws(() => new Idworker(connection), {
      message: /^bad connection: .*, allowed is one of @nats-io\/nats-core, as await connect\(\) returns$/,
    })
  }
})

test("close ends calls and prefetchers, leaves the connection, and does nothing twice", async () => {
  const connection = new FakeConnection()
  const ids = new Idworker(connection.nats)
  const buffer = ids.prefetch("order")
  const calls = [
    ids.next("order"),
    ids.next("order"),
    ids.nextN("order", 2),
    ids.snowflake(),
    buffer.next(),
    ids.prefetchSnowflake().ready(5),
  ]
  const ended = Promise.allSettled(calls)
  await settled()
  const { length } = connection.sent
  await Promise.all([ids.close(), ids.close()])
  await ids.close()
  for (const each of await ended) {
    assert.ok(each.status === "rejected" && each.reason instanceof ClosedError, `${each.status}`)
  }
  await assert.rejects(ids.next("order"), ClosedError)
  await assert.rejects(ids.prefetch("order").next(), ClosedError)
  assert.throws(buffer.take, ClosedError)
  await settled()
  assert.deepEqual([connection.sent.length, connection.watchers, connection.ended], [length, 0, undefined])
  assert.deepEqual(connection.unsubscribed, connection.subscribed)
})

test("nothing of an ended call keeps a process alive", async () => {
  const { ids } = served()
  const before = process.getActiveResourcesInfo().length
  await Promise.all([ids.next("order"), ids.next("order"), ids.nextN("order", 2)])
  await new Promise((resolve) => setImmediate(resolve)) // the token of the lane is back
  assert.equal(process.getActiveResourcesInfo().length, before)
})

test("calls and waits last as long as they may, by default as long as the client's", async () => {
  const time = virtualTime()
  const { nats } = new FakeConnection()
  for (const [options, timeout] of [
    [{}, 5000],
    [{ timeout: 300 }, 300],
  ] as const) {
    const ids = new Idworker(nats, options)
    const own = { timeout: timeout - 100 }
    const short = [ids.next("a", own), ids.nextN("b", 2, own), ids.snowflake(own), ids.snowflakeN(2, own)]
    const long = [
      ids.next("c"),
      ids.nextN("d", 2),
      ids.prefetch("e").next(),
      ids.prefetchSnowflake().ready(2),
    ]
    const states = () => Promise.all([...short, ...long].map(async (each) => (await rejection(each))?.name))
    pass(time, timeout - 101)
    assert.deepEqual(await states(), Array(8).fill(undefined))
    pass(time, 100)
    assert.deepEqual(await states(), [...Array(4).fill("CallTimeoutError"), ...Array(4).fill(undefined)])
    pass(time, 1)
    assert.deepEqual(await states(), Array(8).fill("CallTimeoutError"))
  }
})

test("a prefetcher's requests say so; a refused batch is repeated, but one of snowflake IDs shrinks", async () => {
  const time = virtualTime()
  const connection = new FakeConnection()
  const ids = new Idworker(connection.nats)
  for (const [prefetcher, counts] of [
    [ids.prefetch("order"), ["100", "100"]],
    [ids.prefetchSnowflake(), ["100", ""]],
  ] as const) {
    connection.sent.length = 0
    prefetcher.ready(100).catch(() => {})
    connection.refuseRequest(connection.sent[0]!, 503)
    await settled()
    pass(time, 50)
    assert.deepEqual(
      connection.sent.slice(0, 2).map(({ body }) => body),
      counts,
    )
    for (const { headers } of connection.sent) assert.equal(headers?.get("Ids-Prefetch"), "1")
  }
})

/** A client whose calls have the traces 1, 2, 3, …, and what the requests since the latest look carried. */
function traced(): { ids: Idworker; connection: FakeConnection; traces: () => (string | undefined)[] } {
  const connection = new FakeConnection()
  connection.info = { headers: true }
  let calls = 0
  const ids = new Idworker(connection.nats, { traceparent: () => String(++calls) })
  return {
    ids,
    connection,
    traces: () => connection.sent.splice(0).map((sent) => sent.headers?.get("traceparent")),
  }
}

test("a call asks for its trace once, as it begins, and a prefetcher never does", async () => {
  const time = virtualTime()
  const { ids, connection, traces } = traced()
  for (const call of [ids.next("order"), ids.nextN("order", 5), ids.snowflake(), ids.snowflakeN(5)]) {
    call.catch(() => {})
  }
  assert.deepEqual(traces(), ["1", "2", "3", "4"])
  pass(time, 60)
  assert.deepEqual(traces(), ["1", "2", "3", "4"]) // the second tries
  await ids.close()
  await rejection(ids.nextN("order", 0))
  await rejection(ids.next("order", { timeout: 0 }))

  const another = traced()
  await rejection(another.ids.prefetch("order").next())
  assert.deepEqual(
    another.connection.sent.map(({ headers }) => headers?.keys()),
    [["Ids-Prefetch"]],
  )
  await rejection(another.ids.next("order"))
  assert.deepEqual(another.traces().at(-1), "1")
  assert.equal(connection.sent.length, 0)
})

test("joined calls carry the trace of the first that is sent, and alone each its own", async () => {
  const time = virtualTime()
  const { ids, connection, traces } = traced()
  const controller = new AbortController()
  const calls = [ids.next("order"), ids.next("order", controller), ids.next("order"), ids.next("order")]
  for (const call of calls) call.catch(() => {})
  controller.abort()
  pass(time, 1)
  const [, joined] = connection.sent
  assert.deepEqual(traces(), ["1", "3"])
  connection.refuseRequest(joined!, 503)
  assert.deepEqual(traces(), ["3", "4"])
})

for (const [what, traceparent] of Object.entries<Anything>({
  none: () => undefined,
  null: () => null,
  "an object": () => ({ toString: () => "00-1-2-01" }),
  "an exception": () => {
    throw new Error("no trace")
  },
})) {
  test(`a call with ${what} for a trace has no header`, async () => {
    const { ids, connection } = served({ traceparent })
    connection.info = { headers: true }
    assert.equal(await ids.next("order"), 7n)
    assert.equal(connection.sent[0]!.headers, undefined)
  })
}

// Conformance aborts calls for IDs of tags.
test("a signal ends requests for snowflake IDs, and no other call", async () => {
  const ids = new Idworker(new FakeConnection().nats)
  const controller = new AbortController()
  const calls = [ids.snowflake(), ids.snowflake(controller), ids.snowflakeN(2, controller)]
  controller.abort()
  const states = calls.map(async (each) => (await rejection(each))?.name)
  assert.deepEqual(await Promise.all(states), [undefined, "AbortError", "AbortError"])
})

test("many calls may share a signal, of which Node warns as a leak otherwise", async () => {
  const { signal } = new AbortController()
  const warnings: Error[] = []
  const keep = (warning: Error) => warnings.push(warning)
  process.on("warning", keep)
  const { ids } = served()
  await Promise.all(
    Array.from({ length: 20 }, () => [ids.next("a", { signal }), ids.snowflakeN(1, { signal })]).flat(),
  )
  await settled()
  process.off("warning", keep)
  assert.deepEqual(warnings, [])
})
