import assert from "node:assert/strict"
import { getEventListeners } from "node:events"
import { beforeEach, test } from "node:test"
import type { IdBatch } from "../src/batch.js"
import { Call, Link, type Request, type Transient } from "../src/call.js"
import {
  BadReplyError,
  BusyError,
  CallTimeoutError,
  CancelledError,
  ConnectionEndedError,
  ErrorReplyError,
  ExhaustedError,
  type IdworkerError,
  MalformedRequestError,
  NoSuchTagError,
  PermissionDeniedError,
  StrictTagError,
  UnavailableError,
} from "../src/errors.js"
import { FakeConnection, pass } from "./fake.mjs"
import { VirtualTime } from "./virtual-time.mjs"

const subject = "ids.segment.order"

let time: VirtualTime
let connection: FakeConnection
let link: Link

function begin(): void {
  time = new VirtualTime(1)
  connection = new FakeConnection()
  link = new Link(connection.nats, time)
}

beforeEach(begin)

interface Begun {
  readonly call: Call
  readonly ids: Promise<IdBatch>
  readonly transients: Transient[]
}

function call(request: Partial<Request> = {}, timeout = 5000, signal?: AbortSignal): Begun {
  const transients: Transient[] = []
  let begun!: Call
  const ids = new Promise<IdBatch>((served, failed) => {
    begun = new Call(link, { subject, n: 1, ...request }, time.now() + timeout, {
      signal,
      served,
      failed,
      transient: (reason) => transients.push(reason),
    })
    begun.start()
  })
  ids.catch(() => {}) // the test looks later
  return { call: begun, ids, transients }
}

/** The error of a call, of this class. */
async function failure<E extends IdworkerError>(
  { ids }: Begun,
  kind: abstract new (...args: never[]) => E,
): Promise<E> {
  const error = await ids.then(
    () => assert.fail("the call was served"),
    (error: unknown) => error,
  )
  assert.ok(error instanceof kind, `${error}`)
  return error
}

test("a connection that is lost before the first call has the calls wait for it", async () => {
  await connection.report({ type: "disconnect", server: "" })
  const waiting = call()
  pass(time, 100)
  assert.deepEqual([connection.sent.length, waiting.call.reason], [0, "disconnected"])
})

test("a client that begins on a lost connection waits for it, which is no try", async () => {
  connection.info = undefined
  link = new Link(connection.nats, time)
  const waiting = call()
  assert.equal(connection.sent.length, 0)
  await connection.report({ type: "reconnect", server: "" })
  pass(time, 50)
  assert.equal(connection.sent.length, 1)
  connection.serve(connection.sent[0]!, "8")
  assert.deepEqual([...(await waiting.ids)], [8n])
  assert.equal(waiting.call.tries, 1)
})

test("the error at the deadline has the latest reason, the tries and the subject", async () => {
  const silent = call({}, 175)
  const parked = call({}, 25)
  pass(time, 175)
  const error = await failure(silent, CallTimeoutError)
  assert.equal(error.message, "request ids.segment.order: no reply (deadline exceeded after 3 tries)")
  assert.deepEqual(
    [error.reason, error.tries, error.subject, error.retryable],
    ["no_reply", 3, subject, true],
  )
  assert.match(
    (await failure(parked, CallTimeoutError)).message,
    /no reply \(deadline exceeded after 1 try\)$/,
  )

  const busy = call({}, 400)
  connection.refuseRequest(connection.sent.at(-1)!, 429)
  pass(time, 400)
  const why = await failure(busy, CallTimeoutError)
  assert.match(
    why.message,
    /^request ids.segment.order: text of 429 \(429\) \(deadline exceeded after \d tries\)$/,
  )
  assert.deepEqual([why.reason, why.code], ["busy", undefined])
  assert.ok(why.cause instanceof BusyError)
  assert.throws(() => time.runNext()) // no timer is left
})

test("a reply that has arrived counts, although a busy process reads it after the deadline", async () => {
  const late = call({}, 50)
  time.after(50, () => connection.serve(connection.sent[0]!, "7")) // after the call's timer
  pass(time, 50)
  assert.deepEqual([...(await late.ids)], [7n])
  assert.equal(connection.sent.length, 1)
})

test("a call that gets no IDs tries again, and the first reply that decides it does", async () => {
  const parked = call({ n: 2 })
  pass(time, 200)
  assert.equal(connection.sent.length, 4)
  connection.refuseRequest(connection.sent[3]!, 503)
  connection.serve(connection.sent[0]!, "5-6")
  connection.serve(connection.sent[1]!, "7-8")
  connection.refuseRequest(connection.sent[2]!, 404)
  assert.deepEqual([...(await parked.ids)], [5n, 6n])
  assert.deepEqual(parked.transients.map(String), [
    "no_reply",
    "UnavailableError: request ids.segment.order: text of 503 (503)",
  ])
})

test("an error that no retry cures ends a call, and has its code, tries and subject", async () => {
  for (const [code, kind] of [
    [400, MalformedRequestError],
    [404, NoSuchTagError],
    [409, StrictTagError],
    [507, ExhaustedError],
    [500, ErrorReplyError],
  ] as const) {
    const refused = call()
    connection.refuseRequest(connection.sent.at(-1)!, code, "9")
    connection.serve(connection.sent.at(-1)!, "9")
    const error = await failure<ErrorReplyError>(refused, kind)
    assert.equal(error.message, `request ids.segment.order: text of ${code} (${code})`)
    assert.deepEqual([error.code, error.tries, error.subject, error.retryable], [code, 1, subject, false])
  }
  const malformed = call()
  connection.serve(connection.sent.at(-1)!, "1\n")
  assert.equal(
    (await failure(malformed, BadReplyError)).message,
    'request ids.segment.order: malformed reply: "" is not a range of IDs',
  )
})

test("a reply that cannot be read never stops the library's reading", async () => {
  const unread = call()
  const unreadable = { data: Buffer.from("1") }
  Object.defineProperty(unreadable, "headers", {
    get: () => {
      throw new Error("'é' is not a valid character in a header name")
    },
  })
  connection.deliver(connection.sent.at(-1)!.reply, unreadable)
  assert.match((await failure(unread, BadReplyError)).message, /malformed reply: its headers cannot be read$/)
})

test("a refusal of the server ends the calls of its subject", async () => {
  const [denied, other] = [call(), call({ subject: `${subject}.not` })]
  await connection.refuse("publish", subject)
  const error = await failure(denied, PermissionDeniedError)
  assert.match(error.message, /^request ids.segment.order: Permissions Violation for publish/)
  assert.equal(error.retryable, false)
  connection.serve(connection.sent.at(-1)!, "7")
  assert.deepEqual([...(await other.ids)], [7n])
})

test("a refusal of the inbox ends all calls, and names the setting", async () => {
  const denied = [call(), call({ subject: "ids.snowflake" })]
  await connection.refuse("subscription", connection.subscribed[0]!)
  for (const each of denied) {
    assert.match(
      (await failure(each, PermissionDeniedError)).message,
      /Permissions Violation for subscription to "_INBOX\..*": a user .* set inboxPrefix in connect\(\)$/,
    )
  }
})

test("after an error of the server a silent call subscribes again, in case its subscription was ignored", async () => {
  const waiting = call()
  pass(time, 200)
  assert.equal(connection.subscribed.length, 1)
  await connection.report({ type: "error", error: new Error("maximum subscriptions exceeded") })
  pass(time, 200)
  assert.equal(connection.subscribed.length, 2)
  assert.equal(connection.subscribed[0], connection.subscribed[1])
  connection.serve(connection.sent[0]!, "7")
  assert.deepEqual([...(await waiting.ids)], [7n])
})

test("the end of the connection ends calls, present and future", async () => {
  for (const how of ["closed", "draining"] as const) {
    begin()
    const waiting = call()
    await connection.end(how)
    for (const ended of [waiting, call()]) {
      const error = await failure(ended, ConnectionEndedError)
      assert.match(error.message, new RegExp(`^request ids.segment.order: connection ${how}$`))
      assert.equal(error.retryable, false)
    }
    assert.throws(() => time.runNext())
  }
  assert.equal(connection.sent.length, 1)
})

test("a signal cancels a call, before it begins and at any time", async () => {
  const before = await failure(call({}, 5000, AbortSignal.abort("why")), CancelledError)
  assert.deepEqual([before.tries, before.cause, before.name], [0, "why", "AbortError"])
  assert.equal(connection.sent.length, 0)

  const controller = new AbortController()
  const [inTry, served] = [
    call({}, 5000, controller.signal),
    call({ subject: "ids.snowflake" }, 5000, controller.signal),
  ]
  connection.serve(connection.sent[1]!, "7")
  await served.ids
  pass(time, 60)
  const sent = connection.sent.length
  controller.abort(new Error("enough"))
  const error = await failure(inTry, CancelledError)
  assert.equal(error.message, "request ids.segment.order: no reply (cancelled after 2 tries)")
  assert.deepEqual([(error.cause as Error).message, error.retryable], ["enough", false])
  assert.equal(getEventListeners(controller.signal, "abort").length, 0)
  connection.serve(connection.sent[0]!, "1") // dropped
  assert.throws(() => time.runNext())
  assert.equal(connection.sent.length, sent)
})

test("a hasty call ends with the first refusal, but not with silence", async () => {
  const refused = call({ n: 2, hasty: true })
  pass(time, 200)
  assert.equal(connection.sent.length, 4)
  connection.refuseRequest(connection.sent[1]!, 503)
  assert.equal((await failure(refused, UnavailableError)).retryable, true)
  const lonely = call({ n: 2, hasty: true })
  connection.noResponders(connection.sent.at(-1)!)
  assert.deepEqual(
    [(await failure(lonely, CallTimeoutError)).reason, (await failure(lonely, CallTimeoutError)).retryable],
    ["no_responders", true],
  )
})
