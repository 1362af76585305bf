/**
 * IDs for entities of TypeORM. A subscriber sets the ID of each row before its
 * insert, so rows stay in one statement and `save` returns entities with IDs.
 *
 * @module
 */
import type {
  DataSource,
  EntityMetadata,
  EntitySubscriberInterface,
  EntityTarget,
  InsertEvent,
  ObjectLiteral,
  ValueTransformer,
} from "typeorm"
import { checkOptions, checkTag, show } from "./arguments.js"
import { clock } from "./clock.js"
import { BadConfigError, StrictTagError } from "./errors.js"
import type { IdBuffer, Ids } from "./ids.js"
import type { PrefetchOptions } from "./prefetch.js"

/** Where a column's IDs come from: a tag, or the snowflake IDs. */
export type IdworkerIdSource = string | { readonly snowflake: true }

/** A column that gets IDs, of an entity without {@link IdworkerId}. */
export interface IdworkerColumn {
  /** The class, the `EntitySchema` or the name of the entity. */
  entity: EntityTarget<ObjectLiteral>
  /** The path of the property, such as `id`. */
  property: string
  /** Where its IDs come from. */
  ids: IdworkerIdSource
}

/** Options of {@link attachIdworker}. */
export interface AttachOptions {
  /** Columns of entities without {@link IdworkerId}. Default: none. */
  columns?: readonly IdworkerColumn[]
  /**
   * The longest wait for a row's ID, in ms, above 0. Default: 2000, since a
   * transaction is open and holds a connection of the database.
   */
  wait?: number
  /** The buffers of IDs, one a tag. */
  prefetch?: PrefetchOptions
}

/** What {@link attachIdworker} needs of a client. */
type RowSource = Pick<Ids, "next" | "prefetch" | "prefetchSnowflake">

/** What {@link IdworkerId} accepts: a property that holds an ID exactly. */
type IdProperty<Entity, Property> = Property extends keyof Entity
  ? NonNullable<Entity[Property]> extends bigint | string
    ? Property
    : "an ID needs a property of the type bigint or string"
  : Property

/** The properties that {@link IdworkerId} marked, by class. */
const marks = new WeakMap<object, Map<string, IdworkerIdSource>>()

/**
 * Marks the primary column of an entity, which gets an ID from idworker before
 * its insert:
 *
 * ```ts
 * @PrimaryColumn({ type: "bigint", transformer: bigintId })
 * @IdworkerId("order")
 * id!: bigint
 * ```
 *
 * Without a transformer the property is a string, as TypeORM reads such
 * columns. {@link attachIdworker} checks the column.
 *
 * @param ids the tag, or `{ snowflake: true }`
 * @throws {BadConfigError} if the tag is malformed
 */
export function IdworkerId(ids: IdworkerIdSource) {
  return <Entity extends object, Property extends string>(
    entity: Entity,
    property: Property & IdProperty<Entity, Property>,
  ): void => {
    const place = `IdworkerId of ${entity.constructor.name}.${property}`
    checkSource(place, ids)
    const marked = marks.get(entity.constructor) ?? new Map()
    marks.set(entity.constructor, marked.set(property, ids))
  }
}

/**
 * A transformer of TypeORM for properties of the type bigint. It refuses numbers
 * above 2^53−1, which SQLite's drivers have rounded: there, IDs of that size,
 * such as snowflake IDs, need a column of the type `varchar`.
 */
export const bigintId = {
  to: (id: unknown) => (typeof id === "bigint" ? id.toString() : id),
  from: (value: bigint | number | string | null | undefined): bigint | null | undefined => {
    if (value === null || value === undefined) return value
    if (typeof value === "number" && !Number.isSafeInteger(value)) {
      throw new BadConfigError(
        `the driver has rounded the ID ${value}, since it reads integers as numbers: use a column of the type varchar`,
      )
    }
    return BigInt(value)
  },
} satisfies ValueTransformer

/**
 * Gives the rows of a data source their IDs, from now on and until the client is
 * closed. IDs come from a buffer, at the cost of a request for many rows. A
 * strict tag costs a request a row, and a warning of the process says so once.
 *
 * All inserts get IDs that call TypeORM's subscribers: `save`, `insert`,
 * `upsert` and `values` of the query builder. Others do not, and the database
 * refuses their rows, whose ID is missing: `valuesFromSelect`, SQL of your own,
 * `callListeners(false)`, `save` with `listeners: false`.
 *
 * An ID that is set already is kept: repeat a `save` that failed with the same
 * entity, but use a new object for each row. After an `upsert` that found its
 * row, the object has an ID that the row has not.
 *
 * A wait that is over ends with {@link CallTimeoutError}, which is retryable.
 * Every {@link IdworkerError} reaches the caller as it is, and TypeORM rolls its
 * transaction back. IDs of rows that are rolled back are lost.
 *
 * @param dataSource initialized, and not attached before
 * @param ids where the IDs come from; it stays yours to close
 * @throws {BadConfigError} if an option or a marked column is not usable, such
 * as one that is read as a number, or if no column is marked
 */
export function attachIdworker(dataSource: DataSource, ids: RowSource, options: AttachOptions = {}): void {
  if (!dataSource.isInitialized) {
    throw new BadConfigError("the data source must be initialized before attachIdworker")
  }
  if (dataSource.subscribers.some((subscriber) => subscriber instanceof RowSubscriber)) {
    throw new BadConfigError("the data source has IDs already: call attachIdworker once")
  }
  checkOptions(options, ["columns", "wait", "prefetch"])
  const wait = options.wait ?? 2000
  if (typeof wait !== "number" || !(wait > 0 && wait < 2 ** 31)) {
    throw new BadConfigError(`wait is ${show(wait)}, but must be above 0 ms and below 2^31 ms`)
  }
  const rows = new RowIds(ids, wait, options.prefetch ?? {})
  const columns = markedColumns(dataSource, options.columns ?? [])
  for (const { source } of [...columns.values()].flat()) rows.prepare(source)
  dataSource.subscribers.push(new RowSubscriber(columns, rows))
}

type Column = EntityMetadata["columns"][number]

/** A column that gets IDs, as bigint or as text. */
interface MarkedColumn {
  column: Column
  source: IdworkerIdSource
  text: boolean
}

/** Sets the IDs of rows that have none. */
class RowSubscriber implements EntitySubscriberInterface {
  constructor(
    private readonly columns: ReadonlyMap<EntityMetadata, readonly MarkedColumn[]>,
    private readonly rows: RowIds,
  ) {}

  beforeInsert({ entity, metadata }: InsertEvent<ObjectLiteral>): Promise<unknown> | undefined {
    const columns = this.columns.get(metadata)
    if (!columns) return undefined
    return Promise.all(
      columns.map(async ({ column, source, text }) => {
        if (isSet(column, entity)) return
        const id = await this.rows.next(source)
        // Another hook may have waited for the same entity: the first row of
        // values() twice, or a save that failed while this hook went on.
        if (!isSet(column, entity)) column.setEntityValue(entity, text ? id.toString() : id)
      }),
    )
  }
}

function isSet(column: Column, entity: ObjectLiteral): boolean {
  return (column.getEntityValue(entity) ?? undefined) !== undefined
}

/** One ID for each row: from a buffer, or of a strict tag by a request a row. */
class RowIds {
  readonly #prefetchers = new Map<string, IdBuffer>()
  readonly #strict = new Set<string>()

  constructor(
    private readonly client: RowSource,
    private readonly wait: number,
    private readonly options: PrefetchOptions,
  ) {}

  /** Makes the buffer of a source, or finds it. No tag is empty. */
  prepare(source: IdworkerIdSource): IdBuffer {
    const tag = typeof source === "string" ? source : ""
    let found = this.#prefetchers.get(tag)
    if (!found) {
      found = tag ? this.client.prefetch(tag, this.options) : this.client.prefetchSnowflake(this.options)
      this.#prefetchers.set(tag, found)
    }
    return found
  }

  async next(source: IdworkerIdSource): Promise<bigint> {
    if (typeof source !== "string") return this.prepare(source).next({ timeout: this.wait })
    const end = clock.now() + this.wait
    if (!this.#strict.has(source)) {
      try {
        return await this.prepare(source).next({ timeout: this.wait })
      } catch (error) {
        if (!(error instanceof StrictTagError)) throw error
        this.#rememberStrict(source)
      }
    }
    return this.client.next(source, { timeout: Math.max(1, end - clock.now()) })
  }

  /** A tag is strict for its life, so this holds for that of the process. */
  #rememberStrict(tag: string): void {
    if (this.#strict.has(tag)) return
    this.#strict.add(tag)
    process.emitWarning(`the tag ${tag} is strict, so each row costs a request`, "IdworkerWarning")
  }
}

function checkSource(place: string, source: IdworkerIdSource): void {
  if (typeof source === "object" && source?.snowflake === true) return
  if (typeof source !== "string") {
    throw new BadConfigError(`${place}: it needs a tag, or { snowflake: true }`)
  }
  try {
    checkTag(source)
  } catch (error) {
    throw new BadConfigError(`${place}: ${(error as Error).message}`, { cause: error })
  }
}

/** Finds the columns that get IDs, and refuses those that could not hold or keep them. */
function markedColumns(
  dataSource: DataSource,
  options: readonly IdworkerColumn[],
): Map<EntityMetadata, MarkedColumn[]> {
  const found = new Map<EntityMetadata, MarkedColumn[]>()
  const add = (metadata: EntityMetadata, column: Column, source: IdworkerIdSource, place: string) => {
    const text = readsText(dataSource, column, place)
    found.set(metadata, [...(found.get(metadata) ?? []), { column, source, text }])
  }
  for (const metadata of dataSource.entityMetadatas) {
    for (const column of metadata.columns) {
      const source = markOf(ownerOf(column), column.propertyName)
      if (source) add(metadata, column, source, `IdworkerId of ${metadata.name}.${column.propertyPath}`)
    }
  }
  for (const { entity, property, ids } of options) {
    const metadata = dataSource.getMetadata(entity)
    const place = `${metadata.name}.${property}`
    checkSource(place, ids)
    const column = metadata.findColumnWithPropertyPath(property)
    if (!column) throw new BadConfigError(`${place}: the entity has no such column`)
    if (found.get(metadata)?.some((marked) => marked.column === column)) {
      throw new BadConfigError(`${place}: it has IDs already`)
    }
    add(metadata, column, ids, place)
  }
  if (found.size === 0) {
    throw new BadConfigError("no entity of the data source has a column with IdworkerId")
  }
  return found
}

/** The class with the column's property, or a name if there is none. */
function ownerOf(column: Column): unknown {
  return column.embeddedMetadata?.type ?? column.entityMetadata.target
}

/** The mark of a property, which may be that of a class that this one extends. */
function markOf(owner: unknown, property: string): IdworkerIdSource | undefined {
  for (let type = owner; typeof type === "function"; type = Object.getPrototypeOf(type)) {
    const source = marks.get(type)?.get(property)
    if (source) return source
  }
  return undefined
}

/** The largest ID, which a JavaScript number cannot hold. */
const largest = 2n ** 63n - 1n

/** Returns whether a column's property holds IDs as text, else as bigint. */
function readsText(dataSource: DataSource, column: Column, place: string): boolean {
  const type = typeof column.type === "string" ? column.type : (column.type as { name: string }).name
  const isText = /char|text|^string$/i.test(type)
  if (!column.isPrimary) {
    throw new BadConfigError(`${place}: it must be a primary column, so that no ID can be inserted twice`)
  }
  if (column.isGenerated) {
    throw new BadConfigError(`${place}: the database generates its values; use PrimaryColumn`)
  }
  if (!isText && !/^(bigint|int8|int64|numeric|decimal)$/.test(type)) {
    throw new BadConfigError(`${place}: the column has the type ${type}, but must be bigint or varchar`)
  }
  const read = (value: unknown): unknown =>
    [column.transformer ?? []]
      .flat()
      .reverse()
      .reduce((result, transformer) => transformer.from(result), value)
  const id = read(largest.toString())
  if (id !== largest && id !== largest.toString()) {
    throw new BadConfigError(
      `${place}: its transformer reads IDs as ${typeof id}, but must keep them exactly`,
    )
  }
  if (!isText && numberDrivers.has(dataSource.options.type) && !refuses(read)) {
    throw new BadConfigError(
      `${place}: ${dataSource.options.type} reads the column as a number; add the transformer bigintId, or use varchar`,
    )
  }
  const property = propertyType(column)
  if (property && property !== Object && property !== (typeof id === "bigint" ? BigInt : String)) {
    const cure = property === BigInt ? "; add the transformer bigintId" : ""
    throw new BadConfigError(
      `${place}: the property is ${property.name.toLowerCase()}, but TypeORM reads IDs as ${typeof id}${cure}`,
    )
  }
  return typeof id === "string"
}

/** Drivers of SQLite, which read integers as numbers and round those above 2^53. */
const numberDrivers: ReadonlySet<string> = new Set([
  "sqlite",
  "better-sqlite3",
  "sqljs",
  "expo",
  "capacitor",
  "cordova",
  "nativescript",
  "react-native",
])

function refuses(read: (value: unknown) => unknown): boolean {
  try {
    read(Number(largest))
    return false
  } catch {
    return true
  }
}

/** The property's type, if the compiler wrote it down (emitDecoratorMetadata). */
function propertyType(column: Column): { name: string } | undefined {
  const owner = ownerOf(column)
  if (typeof owner !== "function") return undefined
  const { getMetadata } = Reflect as {
    getMetadata?: (key: string, target: object, property: string) => unknown
  }
  return getMetadata?.("design:type", owner.prototype, column.propertyName) as { name: string } | undefined
}
