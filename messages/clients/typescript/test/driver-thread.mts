import { parentPort, workerData } from "node:worker_threads"
import { clientOf, connection, type Got, prefetcherOf, repeat, type ThreadTask } from "./driver-clients.mjs"

// A worker thread that takes IDs by a connection, a client and a prefetcher of its own.

const { connect, prefetch, n, timeout } = workerData as ThreadTask
const nats = await connection(connect)
const ids = clientOf(nats, connect)
const prefetcher = prefetcherOf(ids, prefetch)
const { ids: taken, kind } = await repeat(n, () => prefetcher.next(timeout === undefined ? {} : { timeout }))
await ids.close()
await nats.close()
const got: Got = kind === undefined ? { ids: taken } : { ids: taken, kind }
parentPort!.postMessage(got)
