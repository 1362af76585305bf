import { setMaxListeners } from "node:events"
import { readFileSync } from "node:fs"
import { createInterface } from "node:readline"
import * as errors from "../src/errors.js"
import { clients, trace } from "./driver-clients.mjs"
import { offline } from "./driver-offline.mjs"
import { DriverError, kindOf, type Operations, on } from "./driver-protocol.mjs"

// This is the driver of testing/conformance for TypeScript, which specifies the
// operations. It is part of the tests, since it needs clocks and buffers, which
// callers cannot reach.

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"))

/** Operations under way, by id. */
const underWay = new Map<number, AbortController>()

const operations: Operations = {
  ...clients,
  ...offline,
  hello: on({}, () => ({
    language: "TypeScript",
    version: `${version} on Node ${process.version}`,
    features: ["cancel", "close", "borrow", "coalescing", "ready", "workers", "statuses", "headerless"],
  })),
  cancel: on({ call: "number" }, ({ call }) => underWay.get(call)?.abort()),
}

type Operation = { id: number; op: string; traceparent?: string }

async function perform({ id, op, traceparent, ...fields }: Operation): Promise<void> {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal) // of all callers
  underWay.set(id, controller)
  let answer: object
  try {
    const operation = operations[op]
    if (operation === undefined) throw new DriverError(`unknown operation ${op}`)
    const ok = await trace.run(traceparent, () => operation(fields, controller.signal))
    answer = { id, ok: ok ?? {} }
  } catch (error) {
    answer = { id, error: describe(error) }
  }
  underWay.delete(id)
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}

/** How an error is answered. */
function describe(error: unknown): object {
  const kind = kindOf(error)
  if (!(error instanceof errors.IdworkerError)) {
    const text = error instanceof Error && kind === "driver" ? error.stack : String(error)
    return { kind, text, retryable: false }
  }
  const { message: text, code, reason, retryable } = error
  return { kind, code, text, reason, tries: error.tries || undefined, retryable }
}

// A library's print is no result.
console.log = console.error
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() !== "") void perform(JSON.parse(line))
}
process.exit(0) // whatever is under way
