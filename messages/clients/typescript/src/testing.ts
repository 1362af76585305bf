/**
 * IDs for an application's unit tests, which need neither NATS nor a worker.
 *
 * @module
 */
import { checkCallOptions, checkCount, checkedPrefetch, checkTag } from "./arguments.js"
import { IdBatch } from "./batch.js"
import type { CallOptions } from "./client.js"
import { clock } from "./clock.js"
import {
  BadCountError,
  BufferEmptyError,
  CancelledError,
  ClosedError,
  MalformedRequestError,
} from "./errors.js"
import type { IdBuffer, Ids } from "./ids.js"
import type { PrefetchOptions } from "./prefetch.js"

/** The default limit of workers. */
const mostInCall = 10_000

/**
 * A client whose IDs count from 1 for each tag, and for snowflake IDs. Tags, counts and options are checked
 * as {@link Idworker} checks them, but every tag exists, and none is strict. A call for more than 10,000 IDs
 * is refused, as workers refuse it by default.
 *
 * Its buffers are stricter than a {@link Prefetcher}: `take` always fails without `ready`, and not only
 * while the buffer is cold; and a later `ready` adds nothing to what an earlier one has left. So a test finds a
 * call of `ready` that was forgotten.
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

  prefetch(tag: string, options?: PrefetchOptions): IdBuffer {
    return this.#buffer(checked(tag), options)
  }

  prefetchSnowflake(options?: PrefetchOptions): IdBuffer {
    return this.#buffer("", options)
  }

  async close(): Promise<void> {
    this.#closed = true
  }

  #buffer(tag: string, options: PrefetchOptions = {}): IdBuffer {
    const { limit } = checkedPrefetch(options)
    let taken = 0
    let promised = 0 // the takes that `ready` has announced, from the first one on
    let spokenFor = 0 // the same of this turn, whose callers have not taken their IDs yet
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
        if (taken >= promised) throw new BufferEmptyError("no ID is buffered, await ready(n) before n takes")
        taken++
        return call()
      },
      next: async (options) => call(options),
      ready: async (n, options) => {
        check(n, options)
        if (n > limit) {
          throw new BadCountError(`ready(${n}), allowed is an integer from 1 to the limit, ${limit}`)
        }
        if (spokenFor === 0) {
          clock.turn(() => {
            spokenFor = 0
          })
        }
        spokenFor = Math.max(spokenFor, taken) + n
        promised = Math.max(promised, spokenFor)
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
    if (n > mostInCall) {
      throw new MalformedRequestError(`count ${n} is too large, allowed is 1 to ${mostInCall} (400)`, {
        code: 400,
      })
    }
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
