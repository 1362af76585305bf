import assert from "node:assert/strict"
import { test } from "node:test"
import { connect } from "@nats-io/transport-node"
import { Installation, patience, until } from "./installation.mjs"

test("an installation serves, also with a worker killed and another paused", async () => {
  const installation = await Installation.start()
  try {
    await installation.createTag("order")
    assert.match(await installation.run("tag", "ls"), /order/)
    await assert.rejects(installation.run("tag", "create", "order."), /tag create order\./)
    const [one, two] = [await installation.startWorker(), await installation.startWorker()]
    await one.kill()
    two.pause()
    two.resume()
    const nats = await connect({ servers: installation.url, timeout: patience })
    try {
      // The server may send a request to the dead worker once more.
      await until("a worker replies", async () => {
        const reply = await nats.request("ids.segment.order", "", { timeout: 1000 }).catch(() => undefined)
        return /^[1-9]\d*$/.test(reply?.string() ?? "")
      })
    } finally {
      await nats.close()
    }
  } finally {
    await installation.close()
  }
})

test("a process that ends instead of serving is an error with its log", async () => {
  await assert.rejects(Installation.start("--no-such-flag"), /ended: .*no-such-flag/s)
})
