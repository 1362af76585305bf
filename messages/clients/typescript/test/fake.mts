import type { Msg, MsgHdrs, NatsConnection, Status } from "@nats-io/nats-core"
import { headers } from "@nats-io/nats-core"
import type { VirtualTime } from "./virtual-time.mjs"

/** A request that a fake connection was given. */
export interface Sent {
  subject: string
  body: string
  reply: string
  headers: MsgHdrs | undefined
}

/** What a client uses of a connection, in a test's hands. Nothing happens but what the test does. */
export class FakeConnection {
  readonly sent: Sent[] = []
  readonly subscribed: string[] = []
  readonly unsubscribed: string[] = []
  info: object | undefined = {}
  ended: "closed" | "draining" | undefined
  /** Of the loop over the statuses. */
  watchers = 0
  /** Is called with each request. */
  onSent: (sent: Sent) => void = () => {}

  readonly #callbacks = new Map<string, (error: Error | null, reply: Msg) => void>()
  readonly #closers: (() => void)[] = []
  #statuses: Status[] = []
  #wake = () => {}
  #stopped = false

  /** The connection, as a client gets it. */
  get nats(): NatsConnection {
    return this as unknown as NatsConnection
  }

  isClosed(): boolean {
    return this.ended === "closed"
  }

  isDraining(): boolean {
    return this.ended === "draining"
  }

  publish(subject: string, body: string | undefined, options: { reply: string; headers?: MsgHdrs }): void {
    const sent = { subject, body: body ?? "", reply: options.reply, headers: options.headers }
    this.sent.push(sent)
    this.onSent(sent)
  }

  subscribe(subject: string, { callback }: { callback: (error: Error | null, reply: Msg) => void }): object {
    this.subscribed.push(subject)
    this.#callbacks.set(subject, callback)
    return {
      closed: new Promise<void>((resolve) => this.#closers.push(resolve)),
      unsubscribe: () => {
        this.unsubscribed.push(subject)
        this.#callbacks.delete(subject)
      },
    }
  }

  status(): AsyncIterable<Status> & { stop(): void } {
    this.watchers++
    this.#stopped = false
    const iterate = async function* (this: FakeConnection) {
      while (true) {
        for (const status of this.#statuses.splice(0)) yield status
        if (this.#stopped) break
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
      this.watchers--
    }
    const stop = () => {
      this.#stopped = true
      this.#wake()
    }
    return { [Symbol.asyncIterator]: iterate.bind(this), stop }
  }

  /** Reports a status, and lets the client read it. */
  async report(status: Status): Promise<void> {
    this.#statuses.push(status)
    this.#wake()
    await settled()
  }

  /** Reports the server's refusal of a right. */
  refuse(operation: "publish" | "subscription", subject: string): Promise<void> {
    const error = new Error(`Permissions Violation for ${operation} to "${subject}"`)
    error.name = "PermissionViolationError"
    return this.report({ type: "error", error: Object.assign(error, { operation, subject }) })
  }

  /** Ends the connection, as its owner does. */
  async end(how: "closed" | "draining"): Promise<void> {
    this.ended = how
    for (const closed of this.#closers) closed()
    if (how === "closed") this.#stopped = true
    this.#wake()
    await settled()
  }

  /** Replies with a body. */
  serve(to: { reply: string }, body: string): void {
    this.deliver(to.reply, { data: Buffer.from(body) })
  }

  /** Replies with an error, whose text is the code's. */
  refuseRequest(to: { reply: string }, code: number | string, body = ""): void {
    const header = headers()
    header.set("Nats-Service-Error-Code", String(code))
    header.set("Nats-Service-Error", `text of ${code}`)
    this.deliver(to.reply, { data: Buffer.from(body), headers: header })
  }

  /** Replies as the server does if nothing subscribes to the subject of the request. */
  noResponders(to: { reply: string }): void {
    this.deliver(to.reply, { data: Buffer.of(), headers: headers(503, "No Responders") })
  }

  /** Delivers a message, if it has a subscriber. */
  deliver(subject: string, message: Pick<Msg, "data"> & { headers?: MsgHdrs }): void {
    const callback = this.#callbacks.get(`${subject.slice(0, subject.lastIndexOf("."))}.*`)
    // Not a copy: reading the headers may be what a test is about.
    callback?.(null, Object.assign(message, { subject }) as unknown as Msg)
  }
}

/** Lets all promises settle that can. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Lets so many ms pass, and runs what is due until then, with what follows from it. */
export function pass(time: VirtualTime, ms: number): void {
  let over = false
  time.after(ms + 1e-6, () => {
    over = true
  })
  while (!over) time.runNext()
}
