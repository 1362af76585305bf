import { type Msg, type MsgHdrs, headers as newHeaders } from "@nats-io/transport-node"
import { Call, Link } from "../src/call.js"
import { Pace } from "../src/pace.js"
import { DriverError, type Operations, on } from "./driver-protocol.mjs"
import { FakeConnection } from "./fake.mjs"
import { VirtualTime } from "./virtual-time.mjs"

// The operations without a server.

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

/** A reply as nats-core hands it over, in the parts that a client reads. */
function reply(headers: MsgHdrs | undefined, body = ""): Msg {
  return { data: Buffer.from(body), headers } as unknown as Msg
}

function refusal(code: string): Msg {
  const headers = newHeaders()
  headers.set("Nats-Service-Error-Code", code)
  return reply(headers)
}

/** What replies to a try that is sent. */
const replies: Record<string, Msg | undefined> = {
  silent: undefined,
  busy: refusal("429"),
  unavailable: refusal("503"),
  no_responders: reply(newHeaders(503, "No Responders")),
  ids: reply(undefined, "7"),
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
  pace: on({ runway_ms: "number", limit: "number", steps: "object" }, (f) => ({
    targets: targets(f.runway_ms, f.limit, f.steps as [number, number][]),
  })),
  schedule: on({ events: "object" }, (f) => ({ waits: waits(f.events as string[]) })),
}
