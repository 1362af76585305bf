/**
 * IDs for an application's unit tests, which need neither NATS nor a worker.
 *
 * @module
 */
import { checkCallOptions, checkCount, checkTag } from "./arguments.js"
import { IdBatch } from "./batch.js"
import type { CallOptions } from "./client.js"
import { BufferEmptyError, CancelledError, ClosedError } from "./errors.js"
import type { IdBuffer, Ids } from "./ids.js"

/**
 * A client whose IDs count from 1 for each tag, and for snowflake IDs. Tags, counts and options are checked
 * as {@link Idworker} checks them, but every tag exists, and none is strict.
 *
 * Its buffers are stricter than a {@link Prefetcher}: `take` always fails without `ready`, and not only
 * while the buffer is cold. So a test finds a call of `ready` that was forgotten.
 */
export class InMemoryIdworker implements Ids {
  readonly #used = new Map<string, bigint>() // by tag; that of snowflake IDs is empty
  #closed = false

  async next(tag: string, options?: CallOptions): Promise<bigint> {
    return this.#call(checked(tag), 1, options).ranges[0]!.first
  }

  async nextN(tag: string, n: number, options?: CallOptions): Promise<IdBatch> {
    return this.#call(checked(tag), n, options)
  }

  async snowflake(options?: CallOptions): Promise<bigint> {
    return this.#call("", 1, options).ranges[0]!.first
  }

  async snowflakeN(n: number, options?: CallOptions): Promise<IdBatch> {
    return this.#call("", n, options)
  }

  prefetch(tag: string): IdBuffer {
    return this.#buffer(checked(tag))
  }

  prefetchSnowflake(): IdBuffer {
    return this.#buffer("")
  }

  async close(): Promise<void> {
    this.#closed = true
  }

  #buffer(tag: string): IdBuffer {
    let ready = 0
    let closed = false
    const check = (n: number, options?: CallOptions): void => {
      this.#check(n, options)
      if (closed) throw new ClosedError("the prefetcher is closed")
    }
    const call = (options?: CallOptions): bigint => {
      check(1, options)
      return this.#call(tag, 1).ranges[0]!.first
    }
    return {
      take: () => {
        check(1)
        if (ready === 0) throw new BufferEmptyError("no ID is buffered, await ready(n) before n takes")
        ready--
        return call()
      },
      next: async (options) => call(options),
      ready: async (n, options) => {
        check(n, options)
        ready += n
      },
      close: async () => {
        closed = true
      },
    }
  }

  #check(n: number, options: CallOptions | undefined): void {
    checkCount(n)
    if (options !== undefined) checkCallOptions(options)
    if (this.#closed) throw new ClosedError("client is closed")
    if (options?.signal?.aborted) throw new CancelledError("cancelled", { cause: options.signal.reason })
  }

  #call(tag: string, n: number, options?: CallOptions): IdBatch {
    this.#check(n, options)
    const first = (this.#used.get(tag) ?? 0n) + 1n
    const last = first + BigInt(n) - 1n
    this.#used.set(tag, last)
    return new IdBatch([{ first, last }], n)
  }
}

function checked(tag: string): string {
  checkTag(tag)
  return tag
}
