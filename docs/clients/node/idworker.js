// A client of idworker for Node.js, written from docs/protocol.md.
import { RequestError, TimeoutError } from "@nats-io/transport-node"
import { setTimeout as pause } from "node:timers/promises"

const tries = [250, 500, 1000, 3000] // ms; a worker may take 2 s to refuse

export class IDError extends Error {
  constructor(code, text) { super(`${text} (${code})`); this.code = code }
}

// Requests n IDs from ids.segment.<tag> or ids.snowflake; returns ascending BigInts.
export async function ids(nc, subject, n = 1) {
  for (let i = 0; ; i++) {
    try {
      const reply = await nc.request(subject, n === 1 ? "" : String(n), { timeout: tries[i] })
      const code = reply.headers?.get("Nats-Service-Error-Code")
      if (code) throw new IDError(Number(code), reply.headers.get("Nats-Service-Error"))
      return decode(reply.string(), n)
    } catch (err) {
      if (!passes(err) || i === tries.length - 1) throw err
      await pause(tries[i] * Math.random())
    }
  }
}

// No responders, a lost request or reply, or a worker that has no IDs: all of these pass.
function passes(err) {
  return err instanceof RequestError && err.isNoResponders() || err instanceof TimeoutError || err.code === 429 || err.code === 503
}

function decode(text, n) {
  const ids = []
  for (const line of text.split("\n")) {
    const [first, last = first, ...more] = line.split("-").map((d) => /^[1-9]\d{0,18}$/.test(d) ? BigInt(d) : 0n)
    const ok = first > (ids.at(-1) ?? 0n) && last >= first && last < 2n ** 63n && more.length === 0
    if (!ok || last - first >= n - ids.length) throw new Error(`not ${n} IDs: ${text.slice(0, 80)}`)
    for (let id = first; id <= last; id++) ids.push(id)
  }
  if (ids.length < n) throw new Error(`not ${n} IDs: ${text.slice(0, 80)}`)
  return ids
}
