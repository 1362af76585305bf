import { randomUUID } from "node:crypto"
import { connect } from "@nats-io/transport-node"
import { Idworker } from "../src/index.js"
import { Installation, patience } from "./installation.mjs"

// `npm run bench` compares the client with what a program would use instead of
// it, against the real binary. What is compared takes turns in short rounds, so
// that other programs of the machine disturb all alike. It prints medians.

const rounds = 31
const round = 200 // ms
const bulk = 10_000
const subject = "ids.segment.order"

/** Does something many times for a round; returns how many times a second. */
type Measured = () => Promise<number>

/** Lets all take turns, after a round that warms them up; returns the median of each. */
async function compare(all: Record<string, Measured>): Promise<Record<string, number>> {
  const rates: [name: string, rates: number[]][] = Object.keys(all).map((name) => [name, []])
  for (let i = 0; i <= rounds; i++) {
    for (const [name, measured] of rates) {
      const rate = await all[name]!()
      if (i > 0) measured.push(rate)
    }
    rates.reverse() // what comes first differs
  }
  const median = (values: number[]): number => values.sort((a, b) => a - b)[rounds >> 1]!
  return Object.fromEntries(rates.map(([name, measured]) => [name, median(measured)]))
}

/** Measures a synchronous function, in bulks that `before` prepares outside the measurement. */
function bulks(make: () => unknown, before = async () => {}): Measured {
  return async () => {
    let busy = 0 // ms
    let made = 0
    let last: unknown
    while (busy < round) {
      await before()
      const began = performance.now()
      for (let i = 0; i < bulk; i++) last = make()
      busy += performance.now() - began
      made += bulk
    }
    if (last === undefined) throw new Error("nothing was made")
    return (made / busy) * 1000
  }
}

/** Measures callers that each wait for one result after another. */
function callers(n: number, call: () => Promise<unknown>): Measured {
  return async () => {
    const began = performance.now()
    let made = 0
    const loop = async (): Promise<void> => {
      for (; performance.now() - began < round; made++) await call()
    }
    await Promise.all(Array.from({ length: n }, loop))
    return (made / (performance.now() - began)) * 1000
  }
}

const installation = await Installation.start()
await installation.createTag("order")
const nats = await connect({ servers: installation.url, timeout: patience })
const ids = new Idworker(nats, { timeout: patience })
const orders = ids.prefetch("order")
let counter = 2n ** 60n
const takes = await compare({
  "orders.take()": bulks(orders.take, () => orders.ready(bulk, { timeout: patience })),
  "crypto.randomUUID()": bulks(() => randomUUID()),
  "++counter": bulks(() => ++counter),
})
for (const [name, rate] of Object.entries(takes)) {
  console.log(`${name.padEnd(24)} ${(rate / 1e6).toFixed(1)} M/s`)
}
await orders.close()
for (const n of [1, 64]) {
  const { next, request } = await compare({
    next: callers(n, () => ids.next("order")),
    request: callers(n, () => nats.request(subject, "", { timeout: patience })),
  })
  console.log(
    `next ÷ nats.request, ${n} callers: ${(next! / request!).toFixed(2)} (${next!.toFixed(0)} ÷ ${request!.toFixed(0)} a second)`,
  )
}
await ids.close()
await nats.close()
await installation.close()
