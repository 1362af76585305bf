import assert from "node:assert/strict"
import cluster from "node:cluster"
import { once } from "node:events"
import { after, before, test } from "node:test"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import { connect, type NatsConnection } from "@nats-io/transport-node"
import { Idworker, type Prefetcher } from "../src/index.js"
import { Installation, patience } from "./installation.mjs"
import { type Task, take } from "./taker.mjs"

// Threads and processes take IDs at once, each by a client of its own, beside a
// parent that had IDs buffered before they began.

const takers = 4
const each = 25_000

let installation: Installation
let nats: NatsConnection
let parent: Prefetcher
before(async () => {
  installation = await Installation.start()
  await Promise.all([installation.createTag("order"), installation.startWorker()])
  nats = await connect({ servers: installation.url, timeout: patience, maxReconnectAttempts: -1 })
  parent = new Idworker(nats).prefetch("order")
})
after(async () => {
  await nats?.close()
  await installation?.close()
})

/** A thread or a process that takes IDs. */
interface Taker {
  /** Returns its next message. */
  receive(): Promise<unknown>
  send(message: string): void
  stop(): void
  /** Resolves with its exit code. */
  ended: Promise<unknown>
}

/** Lets all take at once. No ID comes twice, and none is missing. */
async function takeAtOnce(begin: (task: Task) => Taker): Promise<void> {
  const all = Array.from({ length: takers }, () => begin({ url: installation.url, n: each }))
  const fails = Promise.race(all.map(async ({ ended }) => assert.fail(`a taker ended with ${await ended}`)))
  try {
    const connected = Promise.all(all.map((taker) => taker.receive()))
    await parent.ready(5000, { timeout: patience })
    await Promise.race([connected, fails])
    for (const taker of all) taker.send("begin")
    const theirs = all.map(async (taker) => (await taker.receive()) as BigInt64Array)
    const taken = await Promise.race([Promise.all([take(parent, each), ...theirs]), fails])
    for (const taker of all) taker.send("end")
    assert.deepEqual(await Promise.all(all.map(({ ended }) => ended)), Array(takers).fill(0))
    const distinct = new Set<bigint>()
    for (const ids of taken) {
      assert.equal(ids.length, each)
      for (const id of ids) distinct.add(id)
    }
    assert.equal(distinct.size, (takers + 1) * each)
    assert.ok(!distinct.has(0n))
  } finally {
    for (const taker of all) taker.stop()
  }
}

const script = new URL("./taker.mjs", import.meta.url)

test("worker threads take each ID once", () =>
  takeAtOnce((workerData) => {
    const thread = new Worker(script, { workerData })
    return {
      receive: () => once(thread, "message").then(([message]) => message),
      send: (message) => thread.postMessage(message),
      stop: () => void thread.terminate(),
      ended: once(thread, "exit").then(([code]) => code),
    }
  }))

test("processes of node:cluster take each ID once", () => {
  cluster.setupPrimary({ exec: fileURLToPath(script), serialization: "advanced" })
  return takeAtOnce((task) => {
    const child = cluster.fork({ IDWORKER_TASK: JSON.stringify(task) })
    return {
      receive: () => once(child, "message").then(([message]) => message),
      send: (message) => child.send(message),
      stop: () => void child.kill(),
      ended: once(child, "exit").then(([code]) => code),
    }
  })
})
