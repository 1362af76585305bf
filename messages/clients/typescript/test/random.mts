import type { TestContext } from "node:test"

/** A random source, 0 ≤ x < 1. IDWORKER_SEED repeats a run, which shows its seed. */
export function randomOf(t: TestContext): () => number {
  const seed = process.env.IDWORKER_SEED ?? String(Math.floor(Math.random() * 2 ** 32))
  t.diagnostic(`IDWORKER_SEED=${seed}`)
  let state = BigInt(seed)
  return () => {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n)
    return Number(state >> 11n) / 2 ** 53
  }
}
