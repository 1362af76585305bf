import { type Msg, headers as newHeaders } from "@nats-io/transport-node"
import { checkPrefix, checkTag } from "../src/arguments.js"
import { Call, Link } from "../src/call.js"
import { Idworker } from "../src/client.js"
import { decode, decodeReply } from "../src/decode.js"
import { Pace } from "../src/pace.js"
import { rangesOf } from "./driver-clients.js"
import { DriverError, type Operations, on } from "./driver-protocol.js"
import { FakeConnection } from "./fake.js"
import { checkVectors } from "./vectors.js"
import { VirtualTime } from "./virtual-time.js"

// The operations without a server.

/** Reads a count. All that is no decimal becomes one that the client refuses. */
function countOf(n: string): number {
  return /^-?\d+$/.test(n) ? Number(n) : Number.NaN
}

/** A reply as nats-core hands it over, in the parts that a client reads. */
function reply(status: number, headers: Record<string, readonly string[]>, body: Uint8Array): Msg {
  const made = newHeaders(status, status === 0 ? "" : "a status") // the text has no meaning
  for (const [name, values] of Object.entries(headers)) {
    for (const value of values) made.append(name, value)
  }
  return { data: body, headers: made } as unknown as Msg
}

/** The body of a request for n IDs. */
async function requestBody(n: number): Promise<string> {
  const connection = new FakeConnection()
  const ids = new Idworker(connection.nats)
  const published = new Promise<void>((resolve) => {
    connection.onSent = () => resolve()
  })
  const call = ids.snowflakeN(n)
  call.catch(() => {}) // closing ends it
  try {
    await Promise.race([published, call])
    return connection.sent[0]!.body
  } finally {
    await ids.close()
  }
}

/** The targets of a new prefetcher after each step, in virtual time. */
function targets(runway: number, limit: number, steps: readonly [number, number][]): number[] {
  let now = 0
  let taken = 0
  const pace = new Pace(runway, limit, now)
  return steps.map(([ms, more]) => {
    now += ms
    taken += more
    return pace.update(now, taken)
  })
}

/** What replies to a try that is sent. */
const replies: Record<string, Msg | undefined> = {
  silent: undefined,
  busy: reply(0, { "Nats-Service-Error-Code": ["429"] }, new Uint8Array()),
  unavailable: reply(0, { "Nats-Service-Error-Code": ["503"] }, new Uint8Array()),
  no_responders: reply(503, {}, new Uint8Array()),
  ids: reply(0, {}, Buffer.from("7")),
}

/** A link whose calls meet events. */
class Meetings extends Link {
  readonly met: number[] = [] // when
  readonly #events: readonly string[]

  constructor(events: readonly string[], clock: VirtualTime) {
    super(new FakeConnection().nats, clock)
    this.#events = events
  }

  override send(call: Call): "disconnected" | undefined {
    const event = this.#events[this.met.length]!
    this.met.push(this.clock.now())
    if (event === "disconnected") return "disconnected"
    if (!(event in replies)) throw new DriverError(`unknown event ${event}`)
    call.tries++
    const message = replies[event]
    if (message !== undefined) this.clock.turn(() => call.accept(message))
    return undefined
  }
}

/** When a call meets each event. */
function meet(events: readonly string[], random: number): number[] {
  const time = new VirtualTime(random)
  const link = new Meetings(events, time)
  let ended = false
  const request = { subject: "ids.segment.order", n: 1 }
  new Call(link, request, Number.POSITIVE_INFINITY, {
    served: () => {
      ended = true
    },
    failed: (error) => {
      throw error
    },
  }).start()
  while (!ended) time.runNext()
  return link.met
}

function waits(events: readonly string[]): number[][] {
  const [shortest, longest] = [meet(events, 0), meet(events, 1)]
  return events.slice(1).map((_, i) => [shortest, longest].map((met) => met[i + 1]! - met[i]!))
}

export const offline: Operations = {
  decode: on({ body: "string", n: "string" }, (f) => ({
    ranges: rangesOf(decode(Buffer.from(f.body, "base64"), countOf(f.n))),
  })),
  decode_reply: on({ status: "string?", headers: "object?", body: "string", n: "string" }, (f) => {
    const headers = (f.headers ?? {}) as Record<string, string[]>
    const message = reply(Number(f.status ?? 0), headers, Buffer.from(f.body, "base64"))
    const decoded = decodeReply(message, countOf(f.n))
    if (decoded === "no_responders") throw new DriverError("no responders", "no_responders")
    return { ranges: rangesOf(decoded) }
  }),
  count: on({ n: "string" }, async (f) => ({
    body: Buffer.from(await requestBody(countOf(f.n))).toString("base64"),
  })),
  tag: on({ tag: "string" }, (f) => checkTag(f.tag)),
  prefix: on({ prefix: "string" }, (f) => checkPrefix(f.prefix)),
  pace: on({ runway_ms: "number", limit: "number", steps: "object" }, (f) => ({
    targets: targets(f.runway_ms, f.limit, f.steps as [number, number][]),
  })),
  schedule: on({ events: "object" }, (f) => ({ waits: waits(f.events as string[]) })),
  vectors: on({ file: "string" }, (f) => checkVectors(f.file)),
}
