import { IdBatch } from "../src/batch.js"
import type { IdworkerError } from "../src/errors.js"
import type { Ids } from "../src/ids.js"
import { Prefetcher, type PrefetchOptions } from "../src/prefetch.js"

/** A request of a buffer or a call, for n IDs of a tag, which is empty for snowflake IDs. */
export interface FakeRequest {
  buffered: boolean
  tag: string
  n: number
}

/** A client whose IDs count from a number on, without a connection. */
export class FakeIds {
  readonly requests: FakeRequest[] = []
  /** Returns the refusal of a request, if any. */
  refusal: (request: FakeRequest) => IdworkerError | undefined = () => undefined
  /** Holds a request until the promise settles. */
  gate: (request: FakeRequest) => Promise<void> | undefined = () => undefined
  readonly client: Pick<Ids, "next" | "prefetch" | "prefetchSnowflake">
  #next: bigint

  constructor(first: bigint) {
    this.#next = first
    const prefetch = (tag: string, options?: PrefetchOptions) =>
      new Prefetcher(`ids.segment.${tag}`, (n) => this.#request(true, tag, n), options)
    const next = async (tag: string) => (await this.#request(false, tag, 1)).ranges[0]!.first
    this.client = { next, prefetch, prefetchSnowflake: (options) => prefetch("", options) }
  }

  async #request(buffered: boolean, tag: string, n: number): Promise<IdBatch> {
    const request = { buffered, tag, n }
    this.requests.push(request)
    await this.gate(request)
    const refused = this.refusal(request)
    if (refused) throw refused
    const first = this.#next
    this.#next += BigInt(n)
    return new IdBatch([{ first, last: first + BigInt(n) - 1n }], n)
  }
}

/** Fails unless each ID is there once. */
export function distinct<Id>(ids: readonly Id[]): readonly Id[] {
  if (new Set(ids).size !== ids.length) throw new Error(`an ID twice in ${ids}`)
  return ids
}
