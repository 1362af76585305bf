import assert from "node:assert/strict"
import { getEventListeners } from "node:events"
import { beforeEach, test } from "node:test"
import { Link } from "../src/call.js"
import { Coalescer } from "../src/coalesce.js"
import {
  BadReplyError,
  CallTimeoutError,
  CancelledError,
  ClosedError,
  ExhaustedError,
  type IdworkerError,
} from "../src/errors.js"
import { FakeConnection, pass, type Sent, settled } from "./fake.mjs"
import { VirtualTime } from "./virtual-time.mjs"

const subject = "ids.segment.order"

let time: VirtualTime
let connection: FakeConnection
let link: Link
let coalescer: Coalescer
let granted: bigint // IDs are granted from 1 on

beforeEach(() => {
  time = new VirtualTime(1)
  connection = new FakeConnection()
  link = new Link(connection.nats, time)
  coalescer = new Coalescer(link)
  granted = 0n
})

function next(timeout = 5000, signal?: AbortSignal): Promise<bigint> {
  const id = new Promise<bigint>((resolve, reject) =>
    coalescer.next({ subject, deadline: time.now() + timeout, signal, resolve, reject }),
  )
  id.catch(() => {}) // the test looks later
  return id
}

function begin(callers: number): Promise<bigint>[] {
  return Array.from({ length: callers }, () => next())
}

/** The number of IDs of each request. */
function counts(): number[] {
  return connection.sent.map(countOf)
}

function countOf({ body }: Sent): number {
  return body === "" ? 1 : Number(body)
}

function serve(sent: Sent | undefined): void {
  const first = granted + 1n
  granted += BigInt(countOf(sent!))
  connection.serve(sent!, first === granted ? `${first}` : `${first}-${granted}`)
}

async function failure<E extends IdworkerError>(
  id: Promise<bigint>,
  kind: abstract new (...args: never[]) => E,
): Promise<E> {
  const error = await id.then(
    (got) => assert.fail(`got ${got}`),
    (error: unknown) => error,
  )
  assert.ok(error instanceof kind, `${error}`)
  return error
}

test("calls that come while a request is out share the next ones, and each gets its own ID", async () => {
  const ids = begin(301)
  assert.deepEqual(counts(), [1, 256]) // a full batch does not wait
  serve(connection.sent[0])
  assert.deepEqual(counts(), [1, 256, 44])
  serve(connection.sent[2])
  serve(connection.sent[1])
  const got = await Promise.all(ids)
  assert.equal(new Set(got).size, 301)
  assert.equal(got[0], 1n)
  const second = got.slice(1, 257)
  assert.deepEqual(
    second,
    second.map((_, i) => second[0]! + BigInt(i)), // in the order in which they began
  )
  time.runNext()
  assert.throws(() => time.runNext())
})

test("the callers of a batch, who call again, make the next batch together", async () => {
  const callers = begin(1 + 64).map(async (id) => {
    await id
    await next()
  })
  serve(connection.sent[0])
  serve(connection.sent[1])
  await settled()
  assert.deepEqual(counts(), [1, 64]) // all gather; the token is not back
  time.runNext()
  assert.deepEqual(counts(), [1, 64, 65])
  serve(connection.sent[2])
  await Promise.all(callers)
})

test("a batch waits for the token for a millisecond, and no call joins what was sent", async () => {
  const ids = begin(3)
  pass(time, 0.5)
  assert.deepEqual(counts(), [1])
  pass(time, 0.5)
  assert.deepEqual(counts(), [1, 2])
  ids.push(...begin(4))
  pass(time, 1)
  assert.deepEqual(counts(), [1, 2, 4])
  for (const sent of [...connection.sent].reverse()) serve(sent)
  assert.equal(new Set(await Promise.all(ids)).size, 7)
})

test("a silent first try gives the token back", async () => {
  const ids = begin(1)
  pass(time, 49.5)
  ids.push(...begin(2))
  pass(time, 0.5)
  assert.deepEqual(counts(), [1, 2, 1]) // the batch, and the second try
  serve(connection.sent[0])
  serve(connection.sent[1])
  assert.equal(new Set(await Promise.all(ids)).size, 3)
})

test("after slow requests batches wait for a turn of the loop only", async () => {
  const ids = begin(1)
  for (let i = 0; i < 4; i++) {
    pass(time, 20)
    ids.push(...begin(1)) // gathers, so the lane stays
    serve(connection.sent.at(-1))
    pass(time, 0)
  }
  const { length } = connection.sent
  ids.push(...begin(3))
  assert.equal(connection.sent.length, length)
  const before = time.now()
  time.runNext()
  assert.deepEqual(counts().slice(length), [3])
  assert.equal(time.now(), before)
  for (const sent of connection.sent.slice(-2)) serve(sent)
  assert.equal(new Set(await Promise.all(ids)).size, 8)
})

test("workers' limit is halved until batches fit, and forgotten after a minute", async () => {
  const refuseAbove = async (most: number) => {
    const ids = begin(9)
    serve(connection.sent[0])
    for (const sent of connection.sent.slice(1)) {
      if (countOf(sent) > most) connection.refuseRequest(sent, 400)
    }
    for (const sent of connection.sent.slice(1)) if (countOf(sent) <= most) serve(sent)
    assert.equal(new Set(await Promise.all(ids)).size, 9)
    pass(time, 0)
    return connection.sent.splice(0).map(countOf)
  }
  const alone = Array(8).fill(1)
  assert.deepEqual(await refuseAbove(1), [1, 8, ...alone])
  assert.deepEqual(await refuseAbove(1), [1, 4, 4, ...alone])
  assert.deepEqual(await refuseAbove(1), [1, 2, 2, 2, 2, ...alone])
  assert.deepEqual(await refuseAbove(1), Array(9).fill(1))
  pass(time, 59_000)
  assert.deepEqual(await refuseAbove(9), Array(9).fill(1))
  pass(time, 2000)
  assert.deepEqual(await refuseAbove(9), [1, 8])
})

test("the last ID is for one of them: 507 ends the calls that it is true of", async () => {
  const ids = begin(3)
  serve(connection.sent[0])
  connection.refuseRequest(connection.sent[1]!, 507)
  serve(connection.sent[2])
  connection.refuseRequest(connection.sent[3]!, 507)
  assert.equal(await ids[1], 2n)
  await failure(ids[2]!, ExhaustedError)
})

test("a malformed reply to a batch ends all of its calls", async () => {
  const ids = begin(3)
  serve(connection.sent[0])
  connection.serve(connection.sent[1]!, "2")
  for (const id of ids.slice(1)) await failure(id, BadReplyError)
})

test("a silent batch tries together for half a second, then its calls do alone, with their tries", async () => {
  const ids = [next(), next(3000), next(3000)]
  serve(connection.sent[0])
  await ids[0]
  pass(time, 549)
  assert.deepEqual(counts().slice(1), [2, 2, 2, 2, 2])
  pass(time, 1)
  assert.deepEqual(counts().slice(6), [1, 1])
  serve(connection.sent[6])
  assert.equal(await ids[1], 2n)
  pass(time, 3000)
  const error = await failure(ids[2]!, CallTimeoutError)
  assert.equal(error.reason, "no_reply")
  assert.equal(error.tries, 5 + 13)
  assert.throws(() => time.runNext())
})

test("a call that leaves before its batch is sent is not part of it", async () => {
  const controller = new AbortController()
  const ids = [next(), next(5000, controller.signal), next()]
  controller.abort("enough")
  const error = await failure(ids[1]!, CancelledError)
  assert.deepEqual([error.cause, error.tries], ["enough", 0])
  serve(connection.sent[0])
  serve(connection.sent[1])
  assert.deepEqual(counts(), [1, 1])
  assert.deepEqual([await ids[0], await ids[2]], [1n, 2n])
  const already = await failure(next(5000, controller.signal), CancelledError)
  assert.equal(already.message, "request ids.segment.order: cancelled after 0 tries")
})

test("a call that leaves after its batch is sent loses its ID, and the last one ends the request", async () => {
  const controller = new AbortController()
  const ids = [next(), next(5000, controller.signal), next(5000)]
  serve(connection.sent[0])
  controller.abort()
  await failure(ids[1]!, CancelledError)
  assert.equal(getEventListeners(controller.signal, "abort").length, 0)
  serve(connection.sent[1])
  assert.equal(await ids[2], 3n)

  pass(time, 0) // the token comes back
  const { length } = connection.sent
  const short = [next(), next(30), next(40)]
  serve(connection.sent[length])
  pass(time, 100)
  for (const id of short.slice(1)) {
    const error = await failure(id, CallTimeoutError)
    assert.deepEqual([error.reason, error.tries], ["no_reply", 1])
  }
  pass(time, 1000)
  assert.deepEqual(counts().slice(length), [1, 2])
  assert.throws(() => time.runNext())
})

test("a call that has left a batch does not go on alone", async () => {
  const ids = [next(), next(30), next()]
  serve(connection.sent[0])
  pass(time, 40)
  await failure(ids[1]!, CallTimeoutError)
  connection.refuseRequest(connection.sent[1]!, 503)
  assert.deepEqual(counts(), [1, 2, 1])
  serve(connection.sent[2])
  assert.equal(await ids[2], 2n)
})

test("a batch that all have left is not sent", async () => {
  const controller = new AbortController()
  const [first, second] = [next(), next(5000, controller.signal)]
  controller.abort()
  await failure(second, CancelledError)
  pass(time, 10)
  assert.deepEqual(counts(), [1])
  serve(connection.sent[0])
  await first
  assert.throws(() => time.runNext())
})

test("closing the link ends calls that gather, too", async () => {
  const ids = begin(3)
  link.close()
  for (const id of ids) await failure(id, ClosedError)
  pass(time, 1)
  assert.deepEqual(counts(), [1])
  assert.throws(() => time.runNext())
})
