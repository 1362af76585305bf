/**
 * Checks a tag: 1 to 128 characters, letters, digits, `_`, `-` and dots between
 * them.
 *
 * @throws {BadTagError} with what is wrong and what is allowed
 */
export function checkTag(_tag: string): void {
  throw new Error("not yet")
}

/**
 * Checks the prefix of an installation's subjects.
 *
 * @throws {BadPrefixError} with what is wrong and what is allowed
 */
export function checkPrefix(_prefix: string): void {
  throw new Error("not yet")
}

/**
 * Checks the number of IDs of a request: an integer from 1 to 2^53−1. The worker
 * has a limit of its own.
 *
 * @throws {BadCountError}
 */
export function checkCount(_n: number): void {
  throw new Error("not yet")
}
