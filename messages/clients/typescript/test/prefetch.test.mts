import assert from "node:assert/strict"
import { getEventListeners } from "node:events"
import { afterEach, beforeEach, type TestContext, test } from "node:test"
import { setImmediate as turn } from "node:timers/promises"
import { startupSnapshot } from "node:v8"
import type { Transient } from "../src/call.js"
import { clock } from "../src/clock.js"
import {
  BadConfigError,
  BadCountError,
  BufferEmptyError,
  BusyError,
  CallTimeoutError,
  CancelledError,
  ClosedError,
  ExhaustedError,
  IdBatch,
  type IdRange,
  type IdworkerError,
  MalformedRequestError,
  NoSuchTagError,
  Prefetcher,
  type PrefetchOptions,
  StrictTagError,
} from "../src/index.js"
import { randomOf } from "./random.mjs"

const subject = "ids.segment.order"
const real = { ...clock }

/** A request of the prefetcher, which the test answers. */
interface Request {
  n: number
  signal: AbortSignal
  onTransient(reason: Transient): void
  serve(...ranges: [bigint, bigint][]): void
  refuse(error: unknown): void
}

/** Plays the client's part. It grants 1, 2, 3 …; each ID once. */
class Source {
  readonly requests: Request[] = []
  granted = 0n
  /** Answers each request at once, if it is set. */
  script: ((request: Request) => void) | undefined

  prefetch(options: PrefetchOptions = {}, timeout?: number): Prefetcher {
    return new Prefetcher(
      subject,
      (n, signal, onTransient) =>
        new Promise((resolve, reject) => {
          const request: Request = {
            n,
            signal,
            onTransient,
            serve: (...ranges) => resolve(batchOf(ranges.map(([first, last]) => ({ first, last })))),
            refuse: reject,
          }
          signal.addEventListener("abort", () => reject(new CancelledError("cancelled")))
          this.requests.push(request)
          this.script?.(request)
        }),
      options,
      timeout,
    )
  }

  readonly grant = (request: Request): void => {
    const first = this.granted + 1n
    this.granted += BigInt(request.n)
    request.serve([first, this.granted])
  }

  get last(): Request {
    const last = this.requests.at(-1)
    assert.ok(last)
    return last
  }
}

function batchOf(ranges: IdRange[]): IdBatch {
  return new IdBatch(
    ranges,
    ranges.reduce((n, { first, last }) => n + Number(last - first) + 1, 0),
  )
}

let source: Source
let now: number
let wall: number
beforeEach(() => {
  source = new Source()
  now = 0
  wall = 1_800_000_000_000
  clock.now = () => now
  clock.wall = () => wall
})
afterEach(() => {
  Object.assign(clock, real)
})

/** A prefetcher that got IDs 1 to 100 in three ranges, and has handed out 1 and 2. */
async function filled(options: PrefetchOptions = { limit: 1000, maxBatch: 100 }): Promise<Prefetcher> {
  const ids = source.prefetch(options)
  const ready = ids.ready(100)
  assert.equal(source.last.n, 100)
  source.granted = 100n
  source.last.serve([1n, 1n], [2n, 50n], [51n, 100n])
  await ready
  assert.deepEqual([ids.take(), ids.take()], [1n, 2n])
  return ids
}

/** Takes until the buffer is empty. */
function drain(take: () => bigint): bigint[] {
  const taken: bigint[] = []
  try {
    for (;;) taken.push(take())
  } catch (error) {
    assert.ok(error instanceof BufferEmptyError, String(error))
    return taken
  }
}

function upTo(first: number, last: number): bigint[] {
  return Array.from({ length: last - first + 1 }, (_, i) => BigInt(first + i))
}

test("a take from an empty buffer begins a refill and says what to do", async () => {
  const { take } = source.prefetch() // no hook keeps `this`
  for (let i = 0; i < 3; i++) {
    assert.throws(take, (error: IdworkerError) => {
      assert.ok(error instanceof BufferEmptyError && error.retryable)
      assert.equal(error.message, `request ${subject}: no ID is buffered, await ready(n) before n takes`)
      assert.equal(error.subject, subject)
      return true
    })
  }
  assert.equal(source.requests.length, 1)
  source.grant(source.last)
  await turn()
  assert.equal(take(), 1n)
})

test("a take from an empty buffer has the last error as its cause", async () => {
  const ids = source.prefetch()
  assert.throws(ids.take, BufferEmptyError)
  const gone = new NoSuchTagError("no such tag (404)")
  source.last.refuse(gone)
  await turn()
  assert.throws(ids.take, { name: "BufferEmptyError", cause: gone })
  source.last.onTransient(new BusyError("too many (429)"))
  source.grant(source.last)
  await turn()
  ids.take()
  drain(ids.take)
  source.last.onTransient("no_responders")
  assert.throws(ids.take, {
    name: "BufferEmptyError",
    message: `request ${subject}: no ID is buffered, await ready(n) before n takes (no worker answered)`,
    reason: "no_responders",
  })
})

test("each ID once: takes, waits and announcements at random, over many replies", async (t) => {
  const random = randomOf(t)
  source.script = (request) => {
    if (random() < 0.1) {
      setImmediate(() => request.refuse(new NoSuchTagError("no such tag (404)")))
      return
    }
    const first = source.granted + 1n
    source.granted += BigInt(request.n)
    const middle = first + BigInt(Math.floor(random() * request.n))
    const ranges: [bigint, bigint][] =
      middle < source.granted
        ? [
            [first, middle],
            [middle + 1n, source.granted],
          ]
        : [[first, middle]]
    const serve = (): void => request.serve(...ranges)
    if (random() < 0.5) serve()
    else setTimeout(serve, random() * 2)
  }
  const ids = source.prefetch({ limit: 500, maxBatch: 50 })
  const taken: bigint[] = []
  const callers = Array.from({ length: 50 }, async (_, caller) => {
    for (let round = 0; round < 100; round++) {
      now += random()
      if (round % 30 === 0 && caller === 0) {
        wall += 60_001 // all that is buffered is too old
      }
      try {
        if (caller % 3 === 0) taken.push(await ids.next({ timeout: 60_000 }))
        else if (caller % 3 === 1) {
          await ids.ready(10, { timeout: 60_000 })
          for (let i = 0; i < 10; i++) taken.push(ids.take())
        } else {
          taken.push(ids.take())
        }
      } catch (error) {
        if (!(error instanceof BufferEmptyError || error instanceof NoSuchTagError)) throw error
        await turn()
      }
    }
  })
  await Promise.all(callers)
  assert.equal(new Set(taken).size, taken.length)
  assert.ok(taken.length > 5000, `${taken.length} IDs were taken`)
  assert.ok(taken.every((id) => id >= 1n && id <= source.granted))
})

test("waits are served in the order in which they began", async () => {
  const ids = source.prefetch()
  const waits = [ids.next(), ids.next(), ids.next()]
  assert.equal(source.requests.length, 3)
  for (const request of source.requests) source.grant(request)
  assert.deepEqual(await Promise.all(waits), [1n, 2n, 3n])
})

test("ready announces each ID to one caller", async () => {
  const ids = source.prefetch()
  const got: bigint[] = []
  const handlers = Array.from({ length: 20 }, async () => {
    await ids.ready(10)
    for (let i = 0; i < 10; i++) got.push(ids.take())
  })
  while (source.requests.length > 0) {
    for (const request of source.requests.splice(0)) source.grant(request)
    await turn()
  }
  await Promise.all(handlers)
  assert.equal(new Set(got).size, 200)
})

test("a wait for one ID takes none that ready has announced", async () => {
  const ids = source.prefetch({ limit: 3 })
  const taken: bigint[] = []
  const bulk = ids.ready(3).then(() => {
    for (let i = 0; i < 3; i++) taken.push(ids.take())
  })
  const one = ids.next()
  source.grant(source.last)
  const late = Promise.resolve().then(() => ids.next())
  source.script = source.grant
  await bulk
  assert.deepEqual(taken, [1n, 2n, 3n])
  assert.deepEqual([await one, await late], [4n, 5n])
})

test("ready reserves nothing beyond the turn in which it is settled", async () => {
  const ids = source.prefetch({ limit: 3 })
  const both = [ids.ready(3), ids.ready(3)]
  source.grant(source.last)
  await Promise.all(both)
  assert.equal(drain(ids.take).length, 3)
})

test("ready refuses what can never be buffered", async () => {
  const ids = source.prefetch({ limit: 100 })
  for (const n of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 101]) {
    await assert.rejects(ids.ready(n), (error: IdworkerError) => {
      assert.ok(error instanceof BadCountError)
      assert.equal(
        error.message,
        `request ${subject}: ready(${n}), allowed is an integer from 1 to the limit, 100`,
      )
      return true
    })
  }
  assert.equal(source.requests.length, 0)
})

test("options out of bounds are refused", async () => {
  for (const options of [
    { runway: 0 },
    { runway: 3_600_001 },
    { limit: 0 },
    { limit: 1_000_000_001 },
    { maxBatch: 0 },
    { maxBatch: 1.5 },
    { maxBatch: Number.NaN },
  ]) {
    assert.throws(() => source.prefetch(options), BadConfigError)
  }
  const ids = source.prefetch()
  for (const timeout of [0, -1, Number.NaN, 2 ** 31]) {
    await assert.rejects(ids.next({ timeout }), BadConfigError)
    await assert.rejects(ids.ready(1, { timeout }), BadConfigError)
  }
  assert.equal(source.requests.length, 0)
})

test("an error that no retry cures ends all waits, and one request finds out when it is over", async () => {
  const ids = source.prefetch({ maxBatch: 1 })
  const waits = Promise.allSettled([ids.next(), ids.ready(2), ids.next()])
  const refusal = new StrictTagError("the tag is strict (409)")
  for (const request of source.requests.splice(0)) request.refuse(refusal)
  for (const wait of await waits) assert.deepEqual(wait, { status: "rejected", reason: refusal })
  const again = [ids.next(), ids.next(), ids.next()]
  assert.equal(source.requests.length, 1)
  source.grant(source.last)
  assert.equal(await again[0], 1n)
  assert.equal(source.requests.length, 3, "as many as before")
  source.script = source.grant
  for (const request of source.requests) source.grant(request)
  await Promise.all(again)
})

test("an error is not noticed while IDs are buffered", async () => {
  const ids = await filled()
  const before = source.requests.length
  for (let id = 3n; id <= 100n; id++) {
    assert.equal(ids.take(), id)
    for (const request of source.requests.splice(before)) request.refuse(new ExhaustedError("used up (507)"))
    await Promise.resolve()
  }
  const wait = ids.next()
  await turn()
  source.last.refuse(new ExhaustedError("used up (507)"))
  await assert.rejects(wait, ExhaustedError)
})

test("a refused request for one ID ends waits, and batches begin again at the largest", async () => {
  source.script = (request) => request.refuse(new MalformedRequestError("malformed (400)"))
  const ids = source.prefetch({ maxBatch: 64 })
  await assert.rejects(ids.ready(64), MalformedRequestError)
  assert.equal(ids._figures.batch, 64)
  await assert.rejects(ids.next(), MalformedRequestError)
})

test("batches of snowflake IDs begin again at one, and double", async () => {
  source.script = (request) => {
    if (request.n > 1) request.refuse(new BusyError("too far ahead (429)"))
    else source.grant(request)
  }
  const ids = source.prefetch()
  await ids.ready(100)
  assert.ok(source.last.n <= 2)
  source.requests.length = 0
  source.script = source.grant
  await ids.ready(1000)
  assert.ok(source.requests.some((request) => request.n > 16))
})

test("close ends waits; what is buffered and what comes later is never used", async () => {
  const ids = await filled()
  const empty = source.prefetch()
  const waits = [empty.next(), empty.ready(10)]
  const late = source.last
  const held = assert.rejects(Promise.all(waits), ClosedError)
  const closing = Promise.all([empty.close(), empty.close(), ids.close()])
  assert.ok(late.signal.aborted)
  late.serve([7n, 7n])
  await held
  await closing
  await empty.close()
  for (const closed of [ids, empty]) {
    assert.throws(closed.take, {
      name: "ClosedError",
      message: `request ${subject}: the prefetcher is closed`,
    })
    await assert.rejects(closed.next(), ClosedError)
    await assert.rejects(closed.ready(1), ClosedError)
    assert.deepEqual({ ...closed._figures, batch: 0 }, { buffered: 0, inFlight: 0, target: 1, batch: 0 })
  }
})

test("close waits for requests, and drops a reply that comes all the same", async () => {
  let serve: (ids: IdBatch) => void = () => {}
  const reported: Prefetcher[] = []
  const ids = new Prefetcher(
    subject,
    () =>
      new Promise((resolve) => {
        serve = resolve
      }),
    {},
    5000,
    (prefetcher) => reported.push(prefetcher),
  )
  const wait = assert.rejects(ids.next(), ClosedError)
  let closed = false
  const closing = ids.close().then(() => {
    closed = true
  })
  await wait
  await turn()
  assert.equal(closed, false)
  serve(batchOf([{ first: 7n, last: 7n }]))
  await closing
  await ids.close()
  assert.deepEqual(reported, [ids])
  assert.throws(ids.take, ClosedError)
  assert.equal(ids._figures.buffered, 0)
})

/** Lets the timer that looks at ages run. */
async function second(t: TestContext): Promise<void> {
  t.mock.timers.tick(1000)
  await Promise.resolve()
}

for (const [why, step] of [
  ["older than a minute", 60_001],
  ["from the future", -1],
] as const) {
  test(`the timer drops a buffer that is ${why}`, async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] })
    const ids = await filled()
    await second(t)
    assert.equal(ids._figures.buffered, 98)
    wall += step
    await second(t)
    assert.equal(ids._figures.buffered, 0)
    assert.throws(ids.take, BufferEmptyError)
    const fresh = ids.next()
    source.grant(source.last)
    assert.equal(await fresh, 101n)
    wall += step
    await second(t) // the timer runs again
    assert.equal(ids._figures.buffered, 0)
    await ids.close()
  })

  test(`a range that is ${why} does not begin`, async () => {
    const ids = await filled()
    for (const id of upTo(3, 50)) assert.equal(ids.take(), id)
    wall += step
    assert.throws(ids.take, BufferEmptyError)
    assert.equal(ids._figures.buffered, 0)
    const next = ids.next()
    assert.equal(source.last.n, 1, "the target begins again")
    source.grant(source.last)
    assert.equal(await next, 101n)
    await ids.close()
  })

  test(`ready does not count IDs that are ${why}`, async () => {
    const ids = await filled()
    wall += step
    const ready = ids.ready(10)
    source.grant(source.last)
    await ready
    assert.equal(ids.take(), 101n)
    await ids.close()
  })
}

test("ready does not count IDs that become too old while it waits", async () => {
  const ids = await filled()
  const ready = ids.ready(150)
  wall += 60_001
  source.script = source.grant
  source.grant(source.last)
  await ready
  const taken = drain(ids.take)
  assert.ok(taken[0]! > 100n && taken.length >= 150, `${taken.length} IDs from ${taken[0]}`)
  await ids.close()
})

test("many waits may share a signal, of which Node warns as a leak otherwise", async () => {
  const warnings: Error[] = []
  const keep = (warning: Error) => warnings.push(warning)
  process.on("warning", keep)
  const ids = source.prefetch()
  const controller = new AbortController()
  const { signal } = controller
  const waits = Promise.allSettled(Array.from({ length: 20 }, () => ids.next({ signal })))
  await turn()
  process.off("warning", keep)
  assert.deepEqual(warnings, [])
  controller.abort()
  await waits
  assert.equal(getEventListeners(signal, "abort").length, 0)
})

test("IDs are used for a minute", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] })
  const ids = await filled()
  wall += 60_000
  await second(t)
  assert.deepEqual(drain(ids.take), upTo(3, 100))
  await ids.close()
})

test("a wait that ends has the reason why requests are unanswered", async () => {
  const ids = source.prefetch({}, 1) // its own time-out
  await assert.rejects(ids.next(), {
    name: "CallTimeoutError",
    reason: "no_reply",
    message: `request ${subject}: no reply (deadline exceeded)`,
    tries: 0,
    subject,
  })
  const busy = new BusyError(`request ${subject}: too many (429)`, { code: 429 })
  for (const [transient, reason, text] of [
    [busy, "busy", "too many (429)"],
    ["no_responders", "no_responders", "no worker answered"],
    ["disconnected", "disconnected", "disconnected"],
  ] as const) {
    source.last.onTransient(transient)
    await assert.rejects(ids.ready(5), {
      reason,
      message: `request ${subject}: ${text} (deadline exceeded)`,
      ...(transient === busy ? { cause: busy } : {}),
    })
  }
  source.script = source.grant
  for (const request of source.requests) source.grant(request)
  await ids.next()
  source.script = undefined
  await assert.rejects(ids.ready(1000), { reason: "no_reply" }, "the reason before the reply counts no more")
})

test("a reply that has arrived counts more than the end of the wait", async () => {
  const ids = source.prefetch()
  const next = ids.next({ timeout: 1 })
  const blocked = performance.now() + 5
  setTimeout(() => source.grant(source.last), 1)
  while (performance.now() < blocked);
  assert.equal(await next, 1n)
})

test("a signal ends a wait, and one that was aborted before requests nothing", async () => {
  const ids = source.prefetch()
  const why = new Error("enough")
  await assert.rejects(ids.next({ signal: AbortSignal.abort(why) }), { name: "AbortError", cause: why })
  await assert.rejects(ids.ready(1, { signal: AbortSignal.abort(why) }), { name: "AbortError", cause: why })
  assert.equal(source.requests.length, 0)
  const controller = new AbortController()
  const wait = assert.rejects(ids.next({ signal: controller.signal }), CancelledError)
  controller.abort(why)
  await wait
  source.grant(source.last)
  assert.equal(await ids.next(), 1n, "the wait that left took no ID")
})

test("the target follows the use", async () => {
  source.script = source.grant
  const ids = source.prefetch()
  for (let i = 0; i < 5000; i++) {
    now += 1
    await ids.next()
  }
  const { target } = ids._figures
  assert.ok(target > 1000 && target < 4000, `the target is ${target} at 1000 IDs a second`)
  assert.ok(source.requests.length < 200, `${source.requests.length} requests`)
  wall += 60_001
  await ids.ready(1)
  assert.equal(source.last.n, 1, "a buffer that became too old was too large")
  assert.equal(ids._figures.target, 1)
})

test("the last range is refilled when it begins", async () => {
  for (const take of ["take", "next"] as const) {
    const ids = await filled()
    source.requests.length = 0
    for (const id of upTo(3, 50)) assert.equal(await ids[take](), id)
    assert.equal(source.requests.length, 0)
    assert.equal(await ids[take](), 51n)
    assert.equal(source.requests.length, 1)
  }
})

test("a wait goes on when what was announced to another is dropped", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] })
  const ids = source.prefetch({ limit: 3 })
  const both = [ids.ready(3), ids.ready(3)]
  source.grant(source.last)
  await both[0]
  wall += 60_001
  await second(t)
  assert.equal(source.requests.length, 1)
  await turn()
  assert.equal(source.requests.length, 2)
  source.grant(source.last)
  await both[1]
  assert.equal(ids.take(), 4n)
})

test("no timer keeps the process alive", async () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((what) => what === "Timeout").length
  const before = timers()
  const ids = await filled()
  assert.equal(timers(), before)
  await ids.close()
})

test("no copy of a prefetcher can be made", async () => {
  const ids = await filled()
  assert.throws(() => structuredClone(ids), /could not be cloned/)
  assert.equal(JSON.stringify(ids), "{}")
})

test("no prefetcher is made while a start-up snapshot is built", (t) => {
  t.mock.method(startupSnapshot, "isBuildingSnapshot", () => true)
  assert.throws(() => source.prefetch(), BadConfigError)
})

test("a wait is over once, whatever ends it", async () => {
  const ids = source.prefetch()
  const controller = new AbortController()
  const wait = ids.next({ signal: controller.signal })
  source.grant(source.last)
  assert.equal(await wait, 1n)
  controller.abort()
  await assert.rejects(ids.next({ timeout: 1 }), CallTimeoutError)
  source.grant(source.last)
  assert.equal(await ids.next(), 2n)
  void ids.ready(5).catch(() => {})
  assert.equal(ids._figures.inFlight, 5)
  await ids.close()
})
