/** At a steady rate an ID waits four runways at most; the rest of its minute is for rates that fall. */
const longestRunway = 10_000

/**
 * How many IDs a prefetcher should buffer: twice what is taken in a runway, so
 * that the half at which it requests more lasts a runway.
 *
 * The target grows at once, since callers notice an empty buffer, but at most by
 * a factor of two, since the first microseconds of a burst prove little. It
 * shrinks once a runway at most, since a moment without callers proves nothing.
 */
export class Pace {
  target = 1
  readonly #runway: number
  readonly #limit: number
  #since: number
  #takenThen = 0

  /** Measures from now on. Times are in ms. */
  constructor(runway: number, limit: number, now: number) {
    this.#runway = Math.min(runway, longestRunway)
    this.#limit = limit
    this.#since = now
  }

  /** Begins again, as a new one does. */
  restart(now: number, taken: number): void {
    this.target = 1
    this.#since = now
    this.#takenThen = taken
  }

  /** Returns the target, given the number of IDs taken so far. */
  update(now: number, taken: number): number {
    const elapsed = now - this.#since
    if (elapsed <= 0) return this.target
    const want = (2 * (taken - this.#takenThen) * this.#runway) / elapsed
    if (want <= this.target && elapsed < this.#runway) return this.target // too early to shrink
    const reachable = Math.floor(Math.min(want, 2 * this.target, this.#limit))
    this.target = Math.max(reachable, half(this.target))
    this.#since = now
    this.#takenThen = taken
    return this.target
  }
}

/** Half of n, rounded up. */
export function half(n: number): number {
  return Math.ceil(n / 2)
}
