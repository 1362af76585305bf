// Prints IDs, one per line: node get.js SUBJECT [N]. The server is $NATS_URL. $NATS_USER,
// $NATS_PASSWORD and $IDWORKER_INBOX_PREFIX log in, as for the command idworker.
import { connect } from "@nats-io/transport-node"
import { ids } from "./idworker.js"

const [subject, n = "1"] = process.argv.slice(2)
const { NATS_URL = "127.0.0.1:4222", NATS_USER, NATS_PASSWORD, IDWORKER_INBOX_PREFIX } = process.env
let nc
try {
  nc = await connect({ servers: NATS_URL, user: NATS_USER, pass: NATS_PASSWORD, inboxPrefix: IDWORKER_INBOX_PREFIX })
  console.log((await ids(nc, subject, Number(n))).join("\n"))
} catch (err) {
  console.error(err.message)
  process.exitCode = 1
} finally {
  await nc?.close()
}
