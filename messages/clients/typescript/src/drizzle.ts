/**
 * IDs for rows of Drizzle. Its defaults are synchronous, so they take IDs from a
 * buffer: await `ready(n)` directly before an insert of n rows.
 *
 * @module
 */
import { Column, getTableName, is, Param, Placeholder, type SQL, sql } from "drizzle-orm"
import { BadConfigError } from "./errors.js"
import type { Prefetcher } from "./prefetch.js"

/**
 * A buffer, if values of the column are IDs. The compiler infers them from the
 * column, as `bigint | SQL`; a constraint of {@link rowId} would make it guess.
 */
type Buffered<Value> = Exclude<Value, SQL> extends bigint | string ? Pick<Prefetcher, "take"> : never

/**
 * A default that gives each row an ID of its own, also if a prepared insert runs
 * many times:
 *
 * ```ts
 * id: bigint({ mode: "bigint" }).primaryKey().$defaultFn(rowId(orders))
 * ```
 *
 * `$defaultFn(orders.take)` would take an ID when Drizzle builds the statement,
 * so a prepared insert would repeat it. `rowId` takes it as the statement runs.
 * The column holds bigint (SQLite: `numeric`, mode `bigint`) or text.
 *
 * The statement must be run by Drizzle: the parameters of `toSQL()` and of a
 * driver's `batch` have no ID yet. Not so with MySQL and SingleStore, whose
 * `$returningId` needs the ID before: there the ID is taken as the statement is
 * built, and the column's key refuses a prepared insert that runs again.
 *
 * `insert … select` uses no defaults, so Drizzle or the key refuses it.
 *
 * As an insert runs, it throws {@link BufferEmptyError} if the buffer is empty,
 * and {@link BadConfigError} if the column holds numbers.
 *
 * @param ids a buffer of the IDs
 */
export function rowId<Value = bigint>(ids: Buffered<Value>): () => Value {
  // Drizzle calls a default as the method of its column.
  return function (this: unknown): Value {
    if (!is(this, Column)) {
      throw new BadConfigError("rowId makes a function for $defaultFn of a column")
    }
    const place = `${getTableName(this.table)}.${this.name}`
    if (this.dataType !== "bigint" && this.dataType !== "string") {
      throw new BadConfigError(`${place}: the column holds ${this.dataType}, but must hold bigint or string`)
    }
    const take = () => (this.dataType === "string" ? ids.take().toString() : ids.take())
    if (/^(MySql|SingleStore)/.test(this.columnType)) {
      if (!this.primary && !this.isUnique) {
        throw new BadConfigError(
          `${place}: the column must have primaryKey() or unique(), so that a prepared insert cannot repeat its ID`,
        )
      }
      return take() as Value
    }
    return sql`${new TakenWhenRun(place, () => this.mapToDriverValue(take()))}` as Value
  }
}

/**
 * A parameter whose value Drizzle asks for each time that the statement runs.
 *
 * Drizzle fills a placeholder with the value of its name, which must be in the
 * caller's object, and passes that to the parameter's encoder. All objects have
 * a toString, and this encoder ignores it.
 */
class TakenWhenRun extends Param {
  constructor(
    private readonly place: string,
    value: () => unknown,
  ) {
    super(new Placeholder("toString"), { mapToDriverValue: value })
  }

  /** Drivers encode unknown parameters as JSON: no row may get that as its ID. */
  toJSON(): never {
    throw new BadConfigError(
      `${this.place}: rowId has no ID for toSQL() and batch(): use $defaultFn(orders.take)`,
    )
  }
}
