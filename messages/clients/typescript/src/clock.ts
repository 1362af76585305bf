/** What calls and prefetchers read of the world. Tests replace its functions. */
export const clock = {
  /** The wall clock, in ms since 1970. */
  wall: (): number => Date.now(),
  /** A monotonic clock, in ms. */
  now: (): number => performance.now(),
  /** A random number, 0 ≤ x < 1. */
  random: (): number => Math.random(),
}
