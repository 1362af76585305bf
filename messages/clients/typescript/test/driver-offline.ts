import { headers as newHeaders } from "@nats-io/transport-node"
import { checkPrefix, checkTag } from "../src/arguments.js"
import { decode, decodeReply } from "../src/decode.js"
import { rangesOf } from "./driver-clients.js"
import { type Operations, on } from "./driver-protocol.js"

// The operations without a server.

/** Reads a count. All that is no decimal becomes one that the client refuses. */
function count(n: string): number {
  return /^-?\d+$/.test(n) ? Number(n) : Number.NaN
}

export const offline: Operations = {
  decode: on({ body: "string", n: "string" }, (f) => ({
    ranges: rangesOf(decode(Buffer.from(f.body, "base64"), count(f.n))),
  })),
  decode_reply: on({ status: "string?", headers: "object?", body: "string", n: "string" }, (f) => {
    const headers = newHeaders(Number(f.status ?? 0))
    for (const [name, values] of Object.entries((f.headers ?? {}) as Record<string, string[]>)) {
      for (const value of values) headers.append(name, value)
    }
    return { ranges: rangesOf(decodeReply({ data: Buffer.from(f.body, "base64"), headers }, count(f.n))) }
  }),
  tag: on({ tag: "string" }, (f) => checkTag(f.tag)),
  prefix: on({ prefix: "string" }, (f) => checkPrefix(f.prefix)),
}
