import assert from "node:assert/strict"
import { afterEach, test } from "node:test"
import { Idworker } from "../src/client.js"
import { clock } from "../src/clock.js"
import { BufferEmptyError, CallTimeoutError, NoSuchTagError } from "../src/errors.js"
import type { Logger } from "../src/log.js"
import { FakeConnection, pass, settled } from "./fake.mjs"
import { VirtualTime } from "./virtual-time.mjs"

const real = { ...clock }
afterEach(() => {
  Object.assign(clock, real)
})

/** A client in virtual time, the events that it reported, and workers that a test starts and stops. */
class Site {
  readonly time = new VirtualTime(1)
  readonly connection = new FakeConnection()
  readonly events: [level: string, event: string, fields: object][] = []
  readonly ids: Idworker

  constructor(log?: Logger) {
    Object.assign(clock, this.time)
    const keep = (level: string) => (event: string, fields: object) =>
      this.events.push([level, event, fields])
    this.ids = new Idworker(this.connection.nats, { log: log ?? { warn: keep("warn"), info: keep("info") } })
  }

  /** Lets a call fail, which no worker answers in its time. */
  async fails<E>(call: () => Promise<unknown>, kind: new (...args: never[]) => E): Promise<E> {
    this.connection.onSent = () => {}
    const outcome = call().then(
      () => assert.fail("it was served"),
      (error: unknown) => error,
    )
    await settled()
    pass(this.time, 5001) // ends just after the deadline
    const error = await outcome
    assert.ok(error instanceof kind, `${error}`)
    return error
  }

  /** Lets a call succeed. */
  async succeeds(call: () => Promise<unknown>): Promise<void> {
    this.connection.onSent = (sent) => queueMicrotask(() => this.connection.serve(sent, "7"))
    const outcome = call()
    await settled()
    pass(this.time, 300) // a prefetcher's request that has waited is sent again
    await settled()
    await outcome
  }
}

const subject = "ids.segment.order"

for (const [name, callOf] of Object.entries<(ids: Idworker) => () => Promise<unknown>>({
  next: (ids) => () => ids.next("order"),
  nextN: (ids) => () => ids.nextN("order", 1),
  "a prefetcher's next": (ids) => {
    const orders = ids.prefetch("order", { limit: 1, maxBatch: 1 })
    return () => orders.next()
  },
})) {
  test(`the first call that fails is reported, and the first that succeeds afterwards: ${name}`, async () => {
    const site = new Site()
    const call = callOf(site.ids)
    const { message } = await site.fails(call, CallTimeoutError)
    await site.fails(call, CallTimeoutError)
    assert.deepEqual(site.events, [["warn", "ID requests fail", { subject, error: message }]])

    site.events.length = 0
    pass(site.time, 1000)
    await site.succeeds(call)
    await site.succeeds(call)
    assert.equal(site.events.length, 1)
    const [level, event, fields] = site.events[0]!
    assert.deepEqual([level, event], ["info", "ID requests succeed again"])
    const { seconds, ...rest } = fields as { seconds: number }
    assert.deepEqual(rest, { subject, failedCalls: 2 })
    assert.ok(seconds >= 6 && seconds < 10, `${seconds}`)

    await site.fails(() => site.ids.next("order"), CallTimeoutError)
    assert.deepEqual(site.events.length, 2, "the next outage is another event")
  })
}

test("calls that fail and succeed in turns are one outage", async () => {
  const site = new Site()
  for (let i = 0; i < 5; i++) {
    await site.fails(() => site.ids.next("order"), CallTimeoutError)
    await site.succeeds(() => site.ids.next("order"))
  }
  assert.equal(site.events.length, 1)
})

test("an empty buffer is an outage while requests are unanswered, and not before the first one", async () => {
  const site = new Site()
  const orders = site.ids.prefetch("order")
  assert.throws(orders.take, BufferEmptyError)
  assert.equal(site.events.length, 0)
  pass(site.time, 60)
  assert.throws(orders.take, BufferEmptyError)
  assert.deepEqual(
    site.events.map(([level, event]) => [level, event]),
    [["warn", "ID requests fail"]],
  )
})

test("what a caller does wrong or cancels is no outage, but a signal that times out is", async () => {
  const site = new Site()
  await assert.rejects(site.ids.next("a b"))
  site.connection.onSent = (sent) => queueMicrotask(() => site.connection.refuseRequest(sent, 404))
  await assert.rejects(site.ids.next("order"), NoSuchTagError)
  await assert.rejects(site.ids.next("order", { signal: AbortSignal.abort() }), { name: "AbortError" })
  await site.ids.close()
  await assert.rejects(site.ids.next("order"), { name: "ClosedError" })
  assert.deepEqual(site.events, [])

  const another = new Site()
  const signal = AbortSignal.abort(new DOMException("too late", "TimeoutError"))
  await assert.rejects(another.ids.next("order", { signal }), { name: "AbortError" })
  assert.equal(another.events.length, 1)
})

/** Calls for so many tags at once. */
const nextOfEach = (site: Site, tags: number) =>
  Promise.all(Array.from({ length: tags }, (_, i) => site.ids.next(`tag-${i}`)))

test("at most 16 subjects are remembered, and those that succeed make room", async () => {
  const site = new Site()
  await site.fails(() => nextOfEach(site, 20), CallTimeoutError)
  assert.equal(site.events.length, 16)
  pass(site.time, 1000)
  await site.succeeds(() => site.ids.next("tag-0"))
  await site.fails(() => site.ids.next("tag-17"), CallTimeoutError)
  assert.equal(site.events.length, 18)
})

test("a subject that has not failed for a minute makes room, as one that no call uses any more", async () => {
  const site = new Site()
  await site.fails(() => nextOfEach(site, 16), CallTimeoutError)
  await site.fails(() => site.ids.next("order"), CallTimeoutError)
  assert.equal(site.events.length, 16, "too early")

  site.events.length = 0
  for (let i = 0; i < 12; i++) await site.fails(() => site.ids.next("tag-15"), CallTimeoutError) // a minute
  const { message } = await site.fails(() => site.ids.next("order"), CallTimeoutError)
  await site.fails(() => site.ids.next("tag-15"), CallTimeoutError)
  assert.deepEqual(site.events, [["warn", "ID requests fail", { subject, error: message }]])
})

test("a connection that is lost and restored is reported", async () => {
  const site = new Site()
  await site.connection.report({ type: "disconnect", server: "127.0.0.1:4222" })
  await site.connection.report({ type: "reconnect", server: "127.0.0.1:4223" })
  assert.deepEqual(site.events, [
    ["warn", "NATS connection lost", { server: "127.0.0.1:4222" }],
    ["info", "NATS connection restored", { server: "127.0.0.1:4223" }],
  ])
})

test("a logger that throws or rejects harms no call and no process", async () => {
  const rejections: unknown[] = []
  const keep = (reason: unknown) => rejections.push(reason)
  process.on("unhandledRejection", keep)
  for (const warn of [
    () => {
      throw new Error("no disk")
    },
    () => Promise.reject(new Error("no disk")),
  ]) {
    const site = new Site({ warn, info: warn })
    await site.fails(() => site.ids.next("order"), CallTimeoutError)
    await site.connection.report({ type: "disconnect", server: "127.0.0.1:4222" })
    await site.connection.report({ type: "reconnect", server: "127.0.0.1:4222" })
    await site.succeeds(() => site.ids.next("order"))
  }
  await settled()
  process.off("unhandledRejection", keep)
  assert.deepEqual(rejections, [])
})

test("by default an event is a line on stderr, whatever its fields have", async (t) => {
  const warn = t.mock.method(console, "warn", () => {})
  const time = new VirtualTime(1)
  Object.assign(clock, time)
  const connection = new FakeConnection()
  new Idworker(connection.nats)
  new Idworker(new FakeConnection().nats, { log: console }) // for the compiler
  await connection.report({ type: "disconnect", server: "a\nb" })
  assert.deepEqual(
    warn.mock.calls.map((call) => call.arguments),
    [['idworker: NATS connection lost {"server":"a\\nb"}']],
  )
})
