import cluster from "node:cluster"
import { once } from "node:events"
import { parentPort, workerData } from "node:worker_threads"
import { connect } from "@nats-io/transport-node"
import { Idworker, type Prefetcher } from "../src/index.js"
import { patience } from "./installation.mjs"

/** What a worker thread or a process of `node:cluster` does with a connection of its own. */
export interface Task {
  url: string
  /** The number of IDs to take. */
  n: number
}

/** Takes n IDs in bulks of many sizes, and some by waits of their own. */
export async function take(ids: Prefetcher, n: number): Promise<BigInt64Array> {
  const taken = new BigInt64Array(n)
  for (let i = 0, bulk = 1; i < n; bulk = (bulk * 7) % 997) {
    taken[i++] = await ids.next({ timeout: patience })
    const end = Math.min(n, i + bulk)
    await ids.ready(bulk, { timeout: patience })
    while (i < end) taken[i++] = ids.take()
  }
  return taken
}

if (parentPort !== null || cluster.isWorker) {
  const { url, n }: Task = workerData ?? JSON.parse(process.env.IDWORKER_TASK!)
  const send = (message: unknown): void => {
    if (parentPort !== null) parentPort.postMessage(message)
    else process.send!(message)
  }
  const receive = () => (parentPort === null ? once(process, "message") : once(parentPort, "message"))
  const nats = await connect({ servers: url, timeout: patience, maxReconnectAttempts: -1 })
  const ids = new Idworker(nats)
  send("connected")
  await receive() // all begin at once
  send(await take(ids.prefetch("order"), n))
  await receive() // it was read
  await ids.close()
  await nats.close()
  if (parentPort === null) process.disconnect()
}
