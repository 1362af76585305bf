// Prints IDs, one per line: node get.js SUBJECT [N]. The server is $NATS_URL.
import { connect } from "@nats-io/transport-node"
import { ids } from "./idworker.js"

const [subject, n = "1"] = process.argv.slice(2)
const nc = await connect({ servers: process.env.NATS_URL ?? "127.0.0.1:4222" })
try {
  console.log((await ids(nc, subject, Number(n))).join("\n"))
} catch (err) {
  console.error(err.message)
  process.exitCode = 1
} finally {
  await nc.close()
}
