/** A range of IDs, both ends inclusive: 1 ≤ first ≤ last < 2^63. */
export interface IdRange {
  readonly first: bigint
  readonly last: bigint
}

/** The IDs of one call, ascending, as few ranges. Iterating yields each ID once. */
export class IdBatch implements Iterable<bigint> {
  /** Ascending, without overlap. */
  readonly ranges: readonly IdRange[]
  /** The number of IDs. */
  readonly length: number

  /** @internal */
  constructor(ranges: readonly IdRange[], length: number) {
    this.ranges = ranges
    this.length = length
  }

  *[Symbol.iterator](): Iterator<bigint> {
    for (const { first, last } of this.ranges) {
      for (let id = first; id <= last; id++) yield id
    }
  }
}
