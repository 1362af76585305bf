/** What calls and prefetchers read of the world, and what wakes them. Tests replace its functions. */
export const clock = {
  /** The wall clock, in ms since 1970. */
  wall: (): number => Date.now(),
  /** A monotonic clock, in ms. */
  now: (): number => performance.now(),
  /** A random number, 0 ≤ x < 1. */
  random: (): number => Math.random(),
  /** Calls a function once, after so many ms, at most 2^31−1. Returns what {@link clock.stop} takes. */
  after: (ms: number, run: () => void): unknown => setTimeout(run, ms),
  /** Stops a timer, which may have ended. */
  stop: (timer: unknown): void => clearTimeout(timer as NodeJS.Timeout | undefined),
  /** Calls a function once all that has arrived is read. */
  turn: (run: () => void): void => void setImmediate(run),
}

/** The functions of {@link clock}. */
export type Clock = typeof clock
