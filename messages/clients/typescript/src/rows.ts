import type { IdBuffer } from "./ids.js"

/**
 * Gives rows their IDs before they are inserted:
 *
 * ```ts
 * await db.insert(order).values(await withIds(orders, rows))
 * ```
 *
 * It waits until the buffer has an ID for each row, so it does not depend on what is buffered when it is
 * called. A row that has an ID keeps it. The rows themselves are not changed: the result has copies, which are
 * plain objects of the rows' own properties. An instance of a class loses its getters and methods, so keep to
 * plain objects.
 *
 * To repeat an insert, insert the same result again: another call would give the rows other IDs, and a first
 * insert whose reply was lost would leave them in the table twice.
 *
 * Call it before a transaction begins, because the wait would hold the transaction's database connection.
 *
 * @param ids a buffer of the IDs; its `limit` bounds the number of rows
 * @param rows plain objects; an iterable is read once
 * @param property the property that holds the ID
 * @throws {IdworkerError} as {@link Prefetcher.ready} does
 */
export async function withIds<Row extends object, Property extends string = "id">(
  ids: Pick<IdBuffer, "ready" | "take">,
  rows: Iterable<Row>,
  property: Property = "id" as Property,
): Promise<(Row & Record<Property, bigint>)[]> {
  const idOf = (row: Row) => (row as Partial<Record<Property, bigint>>)[property] ?? undefined
  const all = [...rows]
  const missing = all.filter((row) => idOf(row) === undefined).length
  if (missing > 0) await ids.ready(missing)
  // No other caller runs between the end of the wait and these takes.
  return all.map((row) => ({ ...row, [property]: idOf(row) ?? ids.take() })) as (Row &
    Record<Property, bigint>)[]
}
