import { AsyncLocalStorage } from "node:async_hooks"
import type { Socket } from "node:net"
import { Worker } from "node:worker_threads"
import { connect, type NatsConnection, type NodeConnectionOptions } from "@nats-io/transport-node"
import type { IdBatch } from "../src/batch.js"
import { type CallOptions, Idworker, type IdworkerOptions } from "../src/client.js"
import { clock } from "../src/clock.js"
import type { Prefetcher, PrefetchOptions } from "../src/prefetch.js"
import { DriverError, type Fields, kindOf, type Operations, on, present } from "./driver-protocol.mjs"

// The operations with clients and prefetchers.

const connectFields = {
  client: "string",
  url: "string",
  user: "string?",
  password: "string?",
  prefix: "string?",
  inbox_prefix: "string?",
  timeout_ms: "number?",
  own: "boolean?", // has no effect: the client never makes its connection
} as const
export type ConnectFields = Fields<typeof connectFields>

const prefetchFields = {
  client: "string",
  name: "string",
  tag: "string?",
  runway_ms: "number?",
  limit: "number?",
  max_batch: "number?",
} as const
export type PrefetchFields = Fields<typeof prefetchFields>

/** A client of the driver, which makes its connection. */
interface Driven {
  readonly ids: Idworker
  readonly nats: NatsConnection
  readonly fields: ConnectFields
}

const clientsByName = new Map<string, Driven>()
const prefetchers = new Map<string, { ids: Prefetcher; fields: PrefetchFields }>()

function found<T>(all: Map<string, T>, name: string): T {
  const one = all.get(name)
  if (one === undefined) throw new DriverError(`there is no ${name}`)
  return one
}

/** Makes a connection that is never given up. */
export async function connection(f: ConnectFields): Promise<NatsConnection> {
  const own = { user: f.user, pass: f.password, inboxPrefix: f.inbox_prefix }
  try {
    return await connect({
      ...present<Pick<NodeConnectionOptions, "user" | "pass" | "inboxPrefix">>(own),
      servers: f.url,
      name: f.client,
      timeout: 60_000,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 50,
      reconnectJitter: 0,
      ignoreAuthErrorAbort: true,
    })
  } catch (error) {
    throw new DriverError(`connect: ${error}`, "connection", error)
  }
}

/** The trace of an operation, in which it is performed. */
export const trace = new AsyncLocalStorage<string | undefined>()

function traceparent(): string | undefined {
  const value = trace.getStore()
  if (value === "throw") throw new DriverError("no trace")
  return value
}

export function clientOf(nats: NatsConnection, f: ConnectFields): Idworker {
  const options = { prefix: f.prefix, timeout: f.timeout_ms, traceparent }
  return new Idworker(nats, present<Omit<IdworkerOptions, "log">>(options))
}

export function prefetcherOf(ids: Idworker, f: PrefetchFields): Prefetcher {
  const given = { runway: f.runway_ms, limit: f.limit, maxBatch: f.max_batch }
  const options = present<PrefetchOptions>(given)
  return f.tag === undefined ? ids.prefetchSnowflake(options) : ids.prefetch(f.tag, options)
}

/** The socket below a connection, which no interface shows. */
function socketOf(nats: NatsConnection): Socket {
  return (nats as unknown as { protocol: { transport: { socket: Socket } } }).protocol.transport.socket
}

const callFields = { client: "string", timeout_ms: "number?", cancelled: "boolean?" } as const

/** Makes a call, with its client and options. */
async function call(
  f: Fields<typeof callFields>,
  signal: AbortSignal,
  make: (ids: Idworker, options: CallOptions) => Promise<IdBatch | bigint>,
): Promise<{ ranges: string[] }> {
  const { ids } = found(clientsByName, f.client)
  const got = await make(ids, callOptions(f.timeout_ms, f.cancelled ? AbortSignal.abort() : signal))
  return { ranges: typeof got === "bigint" ? [`${got}`] : rangesOf(got) }
}

function callOptions(timeout: number | undefined, signal: AbortSignal): CallOptions {
  return present<CallOptions>({ timeout, signal })
}

/** The ranges of a batch as text. */
function rangesOf({ ranges }: IdBatch): string[] {
  return ranges.map(({ first, last }) => text(first, last))
}

function text(first: bigint, last: bigint): string {
  return first === last ? `${first}` : `${first}-${last}`
}

/** What a caller got up to its first error. */
export interface Got {
  ids: BigInt64Array<ArrayBuffer>
  /** The kind of the error. */
  kind?: string
  error?: unknown
}

/** Calls so many times, or up to the first error. */
export async function repeat(times: number, next: () => Promise<bigint> | bigint): Promise<Got> {
  let ids = new BigInt64Array(1)
  let got = 0
  const taken = () => ids.slice(0, got)
  try {
    for (; got < times; got++) {
      if (got === ids.length) {
        const longer = new BigInt64Array(2 * got)
        longer.set(ids)
        ids = longer
      }
      const id = next()
      ids[got] = typeof id === "bigint" ? id : await id
    }
  } catch (error) {
    return { ids: taken(), kind: kindOf(error), error }
  }
  return { ids: taken() }
}

/** What callers got. All IDs are sorted, and neighbours joined. An ID that came twice is in two ranges. */
function joined(callers: readonly Got[]): object {
  const errors: Record<string, number> = {}
  let descents = 0
  const all = new BigInt64Array(callers.reduce((sum, { ids }) => sum + ids.length, 0))
  let end = 0
  for (const { ids, kind } of callers) {
    if (kind !== undefined) errors[kind] = (errors[kind] ?? 0) + 1
    ids.forEach((id, i) => {
      if (i > 0 && id <= ids[i - 1]!) descents++
    })
    all.set(ids, end)
    end += ids.length
  }
  all.sort()
  const ranges: string[] = []
  for (let begin = 0, i = 1; i <= all.length; i++) {
    if (i < all.length && all[i] === all[i - 1]! + 1n) continue
    ranges.push(text(all[begin]!, all[i - 1]!))
    begin = i
  }
  return { ranges, errors, descents }
}

/** Lets a worker thread take IDs, by a client of its own. */
export interface ThreadTask {
  connect: ConnectFields
  prefetch: PrefetchFields
  n: number
  timeout: number | undefined
}

function inThread(task: ThreadTask): Promise<Got> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./driver-thread.mjs", import.meta.url), { workerData: task })
    worker.once("message", resolve)
    worker.once("error", reject)
    worker.once("exit", () => reject(new DriverError("a worker thread ended without a result")))
  })
}

export const clients: Operations = {
  connect: on(connectFields, async (f) => {
    const nats = await connection(f)
    try {
      clientsByName.set(f.client, { ids: clientOf(nats, f), nats, fields: f })
    } catch (error) {
      await nats.close()
      throw error
    }
  }),
  close: on({ client: "string" }, async (f) => {
    const { ids, nats } = found(clientsByName, f.client)
    await ids.close()
    await nats.close()
  }),
  close_connection: on({ client: "string" }, (f) => found(clientsByName, f.client).nats.close()),
  drain: on({ client: "string" }, (f) => {
    void found(clientsByName, f.client).nats.drain()
  }),
  kill_link: on({ client: "string" }, (f) => {
    socketOf(found(clientsByName, f.client).nats).destroy()
  }),

  next: on({ ...callFields, tag: "string" }, (f, signal) =>
    call(f, signal, (ids, options) => ids.next(f.tag, options)),
  ),
  next_n: on({ ...callFields, tag: "string", n: "any" }, (f, signal) =>
    call(f, signal, (ids, options) => ids.nextN(f.tag, f.n as number, options)),
  ),
  snowflake: on(callFields, (f, signal) => call(f, signal, (ids, options) => ids.snowflake(options))),
  snowflake_n: on({ ...callFields, n: "any" }, (f, signal) =>
    call(f, signal, (ids, options) => ids.snowflakeN(f.n as number, options)),
  ),
  many: on({ ...callFields, tag: "string", callers: "number", calls: "number" }, async (f, signal) => {
    const { ids } = found(clientsByName, f.client)
    const options = callOptions(f.timeout_ms, f.cancelled ? AbortSignal.abort() : signal)
    const callers = Array.from({ length: f.callers }, () => repeat(f.calls, () => ids.next(f.tag, options)))
    return joined(await Promise.all(callers))
  }),

  prefetch: on(prefetchFields, (f) => {
    prefetchers.set(f.name, { ids: prefetcherOf(found(clientsByName, f.client).ids, f), fields: f })
  }),
  take: on(
    {
      name: "string",
      n: "number?",
      callers: "number?",
      mode: "string?",
      workers: "boolean?",
      timeout_ms: "number?",
    },
    async (f, signal) => {
      const { ids, fields } = found(prefetchers, f.name)
      const options = callOptions(f.timeout_ms, signal)
      const take = { wait: () => ids.next(options), now: ids.take }[f.mode ?? "wait"]
      if (take === undefined) throw new DriverError(`the mode ${f.mode}`)
      const { callers: length = 1, n = 1 } = f
      const task = {
        connect: found(clientsByName, fields.client).fields,
        prefetch: fields,
        n,
        timeout: f.timeout_ms,
      }
      const callers = Array.from({ length }, () => (f.workers ? inThread(task) : repeat(n, take)))
      const all = await Promise.all(callers)
      if (length === 1 && all[0]?.error !== undefined) throw all[0].error
      return joined(all)
    },
  ),
  ready: on({ name: "string", n: "number", timeout_ms: "number?" }, (f, signal) =>
    found(prefetchers, f.name).ids.ready(f.n, callOptions(f.timeout_ms, signal)),
  ),
  buffer: on({ name: "string" }, (f) => {
    const { buffered, inFlight, target, batch } = found(prefetchers, f.name).ids._figures
    return { buffered, in_flight: inFlight, target, batch }
  }),
  close_prefetch: on({ name: "string" }, (f) => found(prefetchers, f.name).ids.close()),

  wall: on({ ms: "number" }, (f) => {
    const before = clock.wall
    clock.wall = () => before() + f.ms
  }),
}
