import type { Msg } from "@nats-io/nats-core"
import type { IdBatch } from "./batch.js"

/**
 * Decodes the body of a reply to a request for n IDs, as docs/protocol.md says.
 *
 * @throws {BadReplyError} unless the body has exactly n ascending IDs
 */
export function decode(_body: Uint8Array, _n: number): IdBatch {
  throw new Error("not yet")
}

/**
 * Decodes a whole reply to a request for n IDs.
 *
 * @throws {ErrorReplyError} the worker's refusal
 * @throws {BadReplyError} if it is malformed
 */
export function decodeReply(_reply: Pick<Msg, "data" | "headers">, _n: number): IdBatch {
  throw new Error("not yet")
}
