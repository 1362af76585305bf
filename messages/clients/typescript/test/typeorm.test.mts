import assert from "node:assert/strict"
import { once } from "node:events"
import { test } from "node:test"
import { setImmediate as turn } from "node:timers/promises"
import {
  Column,
  DataSource,
  type DataSourceOptions,
  Entity,
  EntitySchema,
  ManyToOne,
  OneToMany,
  PrimaryColumn,
  PrimaryGeneratedColumn,
  type Relation,
} from "typeorm"
import {
  CallTimeoutError,
  IdworkerError,
  NoSuchTagError,
  StrictTagError,
  UnavailableError,
} from "../src/errors.js"
import {
  type AttachOptions,
  attachIdworker,
  bigintId,
  IdworkerId,
  type IdworkerIdSource,
} from "../src/typeorm.js"
import { distinct, FakeIds } from "./fake-ids.mjs"
import { until } from "./installation.mjs"

/** The first ID that a JavaScript number cannot hold. */
const large = 2n ** 53n + 1n

const strict = new StrictTagError("request ids.segment.order: strict (409)", { code: 409 })

abstract class Numbered {
  @PrimaryColumn({ type: "varchar", transformer: bigintId })
  @IdworkerId("order")
  id!: bigint
}

@Entity()
class Order extends Numbered {
  @Column({ type: "varchar", unique: true })
  name!: string

  @Column({ type: "int", nullable: true })
  amount!: number | null

  @OneToMany(
    () => Line,
    (line) => line.order,
    { cascade: true },
  )
  lines!: Line[]
}

@Entity()
class Line {
  @PrimaryColumn({ type: "varchar" })
  @IdworkerId({ snowflake: true })
  id!: string

  @ManyToOne(
    () => Order,
    (order) => order.lines,
  )
  order!: Relation<Order>
}

async function open(entities: DataSourceOptions["entities"] = [Order, Line]): Promise<DataSource> {
  return await new DataSource({ type: "sqljs", entities: entities!, synchronize: true }).initialize()
}

async function attached(ids: FakeIds, options?: AttachOptions): Promise<DataSource> {
  const source = await open()
  attachIdworker(source, ids.client, options)
  return source
}

const named = (...names: string[]) => names.map((name) => ({ name }))

async function idsOf(source: DataSource): Promise<bigint[]> {
  return (await source.getRepository(Order).find({ order: { name: "ASC" } })).map((order) => order.id)
}

test("save gives each entity its ID, with few requests", async () => {
  const ids = new FakeIds(large)
  const orders = (await attached(ids)).getRepository(Order)
  const saved = await orders.save(Array.from({ length: 1000 }, (_, i) => orders.create({ name: `${i}` })))
  distinct(saved.map((order) => order.id))
  assert.ok(saved.every((order) => typeof order.id === "bigint" && order.id >= large))
  assert.ok(ids.requests.length <= 100, `${ids.requests.length} requests`)
  for (const order of saved) assert.equal((await orders.findOneByOrFail({ id: order.id })).name, order.name)
})

test("entities saved by a cascade get IDs, and rows refer to them", async () => {
  const source = await attached(new FakeIds(large))
  await source.getRepository(Order).save([
    { name: "a", lines: [{}, {}] },
    { name: "b", lines: [{}] },
  ])
  const found = await source.getRepository(Order).find({ relations: { lines: true }, order: { name: "ASC" } })
  assert.deepEqual(
    found.map((order) => order.lines.length),
    [2, 1],
  )
  const lines = distinct(found.flatMap((order) => order.lines.map((line) => line.id)))
  assert.ok(lines.every((id) => typeof id === "string" && BigInt(id) >= large))
})

test("an entity that was read is updated, and keeps its ID", async () => {
  const ids = new FakeIds(large)
  const orders = (await attached(ids)).getRepository(Order)
  const { id } = await orders.save({ name: "a" })
  const read = await orders.findOneByOrFail({ name: "a" })
  read.amount = 7
  await orders.save(read)
  assert.deepEqual(await orders.find(), [read])
  assert.equal(read.id, id)
})

test("insert, upsert and values of the query builder give IDs, too", async () => {
  const source = await attached(new FakeIds(large))
  const orders = source.getRepository(Order)
  const inserted = await orders.insert(named("a", "b"))
  const built = await orders.createQueryBuilder().insert().values(named("c", "d")).execute()
  await orders.upsert(named("e"), ["name"])
  const stored = distinct(await idsOf(source))
  assert.equal(stored.length, 5)
  assert.deepEqual(
    [...inserted.identifiers, ...built.identifiers].map(({ id }) => id),
    stored.slice(0, 4),
  )
})

test("an upsert that finds its row leaves the row its ID", async () => {
  const source = await attached(new FakeIds(large))
  const orders = source.getRepository(Order)
  await orders.insert({ name: "a" })
  const before = await idsOf(source)
  const again = { name: "a", amount: 7 }
  await orders.upsert(again, ["name"])
  assert.deepEqual(await idsOf(source), before)
  assert.notDeepEqual([(again as Partial<Order>).id], before)
})

test("inserts that call no subscribers are refused by the database", async () => {
  const source = await attached(new FakeIds(large))
  const orders = source.getRepository(Order)
  await orders.insert({ name: "a" })
  const builder = () => orders.createQueryBuilder().insert()
  const select = source.createQueryBuilder().select("o.name || '2'", "name").from(Order, "o")
  const refused = /NOT NULL constraint failed: order\.id/
  await assert.rejects(builder().into(Order, ["name"]).valuesFromSelect(select).execute(), refused)
  await assert.rejects(builder().values(named("b", "c")).callListeners(false).execute(), refused)
  await assert.rejects(orders.save({ name: "d" }, { listeners: false }), refused)
  await assert.rejects(source.query(`insert into "order" (name) values ('e')`), refused)
  assert.equal((await idsOf(source)).length, 1)
})

test("an object that is inserted twice is refused", async () => {
  const source = await attached(new FakeIds(large))
  const orders = source.getRepository(Order)
  const row: { name: string } = { name: "a" }
  const refused = /UNIQUE constraint failed: order\./
  await assert.rejects(orders.insert([row, row]), refused)
  await orders.insert(row)
  row.name = "b"
  await assert.rejects(orders.insert(row), /UNIQUE constraint failed: order\.id/)
  assert.equal((await idsOf(source)).length, 1)
})

test("a save that was rolled back is repeated", async () => {
  const source = await attached(new FakeIds(large))
  const orders = named("a", "b").map((fields) => source.getRepository(Order).create(fields))
  const save = (fails: boolean) =>
    source.transaction(async (manager) => {
      await manager.save(orders)
      if (fails) throw new Error("rolled back")
    })
  await assert.rejects(save(true), /rolled back/)
  assert.deepEqual(await idsOf(source), [])
  await save(false)
  assert.deepEqual(
    distinct(await idsOf(source)),
    orders.map((order) => order.id),
  )
})

test("an ID of the application's is kept", async () => {
  const ids = new FakeIds(large)
  const source = await attached(ids)
  await source.getRepository(Order).save([{ id: 7n, name: "a" }])
  assert.deepEqual(await idsOf(source), [7n])
  assert.equal(ids.requests.length, 0)
})

/** A promise and the function that settles it. */
function gate(): { passed: Promise<void>; open: () => void } {
  let open = () => {}
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { passed, open }
}

test("a save that timed out is repeated", async () => {
  const ids = new FakeIds(large)
  const { passed, open } = gate()
  ids.gate = () => passed
  const source = await attached(ids, { wait: 1 })
  const order = source.getRepository(Order).create({ name: "a" })
  await assert.rejects(
    source.getRepository(Order).save(order),
    (error) => error instanceof CallTimeoutError && error.retryable && error.subject === "ids.segment.order",
  )
  assert.equal(order.id, undefined)
  open()
  // The buffer has its reply once the promise has settled.
  await passed
  await source.getRepository(Order).save(order)
  assert.deepEqual(await idsOf(source), [order.id])
})

test("an entity keeps the ID of its row, though a save that failed gets its reply later", async () => {
  const ids = new FakeIds(large)
  const unavailable = new UnavailableError("unavailable")
  ids.refusal = ({ tag, buffered }) => (tag === "" ? unavailable : buffered ? strict : undefined)
  const { passed, open } = gate()
  ids.gate = ({ buffered }) => (buffered ? undefined : passed)
  const source = await attached(ids)
  const orders = source.getRepository(Order)
  const order = orders.create({ name: "a", lines: [{}] })
  await assert.rejects(orders.save(order), (error) => error === unavailable)
  await until("the call for the order", () => ids.requests.some(({ buffered }) => !buffered))
  ids.gate = () => undefined
  ids.refusal = ({ buffered, tag }) => (tag !== "" && buffered ? strict : undefined)
  await orders.save(order)
  open()
  await turn()
  assert.deepEqual(await idsOf(source), [order.id])
})

test("rows of a strict tag cost a request each, which a warning says once", async () => {
  const ids = new FakeIds(1n)
  ids.refusal = ({ buffered }) => (buffered ? strict : undefined)
  const source = await attached(ids)
  const warnings: Error[] = []
  process.on("warning", (warning) => warnings.push(warning))
  const warned = once(process, "warning")
  for (const name of ["a", "b", "c"]) await source.getRepository(Order).save(named(name, `${name}2`))
  await warned
  assert.equal(distinct(await idsOf(source)).length, 6)
  const calls = ids.requests.filter(({ buffered }) => !buffered)
  assert.deepEqual(calls, Array(6).fill({ buffered: false, tag: "order", n: 1 }))
  assert.deepEqual(
    warnings.map(({ name, message }) => [name, message]),
    [["IdworkerWarning", "the tag order is strict, so each row costs a request"]],
  )
})

test("errors reach the caller as they are, and nothing is inserted", async () => {
  const ids = new FakeIds(1n)
  const error = new NoSuchTagError("request ids.segment.order: no such tag (404)", { code: 404 })
  ids.refusal = () => error
  const source = await attached(ids)
  await assert.rejects(source.getRepository(Order).save(named("a")), (thrown) => thrown === error)
  await assert.rejects(source.getRepository(Order).insert(named("a")), (thrown) => thrown === error)
  assert.deepEqual(await idsOf(source), [])
})

const Ticket = new EntitySchema<{ id: string; name: string }>({
  name: "ticket",
  columns: { id: { type: "varchar", primary: true }, name: { type: String } },
})

test("an entity without decorators is named in the options", async () => {
  const source = await open([Ticket])
  attachIdworker(source, new FakeIds(large).client, {
    columns: [{ entity: Ticket, property: "id", ids: "ticket" }],
  })
  const saved = await source.getRepository(Ticket).save(named("a", "b"))
  assert.deepEqual(
    saved.map(({ id }) => id),
    [`${large}`, `${large + 1n}`],
  )
})

test("what bigintId reads is never a number", () => {
  // @ts-expect-error An ID is never a number.
  const id: number = bigintId.from("9007199254740993")
  assert.equal(id, large)
})

test("a rounded ID is refused as it is read", async () => {
  @Entity()
  class Rounded {
    @PrimaryColumn({ type: "bigint", transformer: bigintId })
    @IdworkerId("order")
    id!: bigint
  }
  const source = await open([Rounded])
  attachIdworker(source, new FakeIds(large - 2n).client)
  const rows = source.getRepository(Rounded)
  await rows.insert({})
  assert.equal((await rows.findOneByOrFail({})).id, large - 2n)
  await rows.insert({})
  await assert.rejects(
    rows.find(),
    /^BadConfigError: the driver has rounded the ID 9007199254740992, since it reads integers as numbers: use a column of the type varchar$/,
  )
})

abstract class Keyed {
  @PrimaryColumn({ type: "varchar" })
  id!: string
}

@Entity()
class Invoice extends Keyed {
  @IdworkerId("invoice")
  declare id: string
}

@Entity()
class Payment extends Keyed {
  @IdworkerId("payment")
  declare id: string
}

test("entities that share a column may have IDs of their own tags", async () => {
  const ids = new FakeIds(1n)
  const source = await open([Invoice, Payment])
  attachIdworker(source, ids.client)
  await source.getRepository(Invoice).save({})
  await source.getRepository(Payment).save({})
  assert.deepEqual([...new Set(ids.requests.map(({ tag }) => tag))], ["invoice", "payment"])
})

class Place {
  @PrimaryColumn({ type: "varchar" })
  tenant!: string

  @PrimaryColumn({ type: "varchar", transformer: [bigintId, { to: (id) => id, from: (id) => `${id}` }] })
  @IdworkerId("shelf")
  number!: bigint
}

@Entity()
class Shelf {
  @Column(() => Place)
  place!: Place
}

test("an ID may be a part of a key, in an object, read by two transformers", async () => {
  const source = await open([Shelf])
  attachIdworker(source, new FakeIds(large).client)
  const shelves = source.getRepository(Shelf)
  await shelves.save([{ place: { tenant: "a" } }, { place: { tenant: "b" } }])
  const found = await shelves.find({ order: { place: { tenant: "ASC" } } })
  assert.deepEqual(
    found.map(({ place }) => place.number),
    [large, large + 1n],
  )
})

/** Attaches entities, and returns the message of the refusal. */
async function refusal(entities: unknown[], options?: AttachOptions, times = 1): Promise<string> {
  const source = await open(entities as DataSourceOptions["entities"])
  const attach = () => attachIdworker(source, new FakeIds(1n).client, options)
  for (let i = 1; i < times; i++) attach()
  try {
    attach()
  } catch (error) {
    assert.ok(error instanceof IdworkerError)
    return `${error}`
  }
  assert.fail("not refused")
}

test("a column that could not hold IDs, or repeat them, is refused", async () => {
  const refuseColumn = async (type: object, options: object, extra: AttachOptions = {}) => {
    const columns = { id: { ...options, primary: true }, other: { type: Number, nullable: true } }
    const schema = new EntitySchema({ name: "t", columns: { ...columns, ...type } as never })
    return refusal([schema], { columns: [{ entity: schema, property: "id", ids: "order" }], ...extra })
  }
  const refused = (rest: string) => `BadConfigError: t.id: ${rest}`
  assert.equal(
    await refuseColumn({}, { type: Number }),
    refused("the column has the type Number, but must be bigint or varchar"),
  )
  assert.equal(
    await refuseColumn({}, { type: "integer" }),
    refused("the column has the type integer, but must be bigint or varchar"),
  )
  assert.equal(
    await refuseColumn({}, { type: "bigint" }),
    refused("sqljs reads the column as a number; add the transformer bigintId, or use varchar"),
  )
  assert.equal(
    await refuseColumn({}, { type: "bigint", transformer: { to: String, from: BigInt } }),
    refused("sqljs reads the column as a number; add the transformer bigintId, or use varchar"),
  )
  assert.equal(
    await refuseColumn({}, { type: "varchar", transformer: { to: String, from: Number } }),
    refused("its transformer reads IDs as number, but must keep them exactly"),
  )
  assert.equal(
    await refuseColumn({ id: { type: "integer", primary: true, generated: true } }, {}),
    refused("the database generates its values; use PrimaryColumn"),
  )
  assert.equal(
    await refuseColumn(
      { id: { type: "varchar" }, other: { type: "varchar", primary: true } },
      { type: "varchar" },
    ),
    refused("it must be a primary column, so that no ID can be inserted twice"),
  )
  const column = (property: string, ids: unknown) => ({
    columns: [{ entity: Ticket, property, ids: ids as IdworkerIdSource }],
  })
  assert.equal(
    await refusal([Ticket], column("number", "ticket")),
    "BadConfigError: ticket.number: the entity has no such column",
  )
  assert.equal(
    await refusal([Ticket], column("id", "my ticket")),
    "BadConfigError: ticket.id: malformed tag: ' ' at byte 2, allowed are A-Z a-z 0-9 _ - and dots between tokens",
  )
  assert.equal(
    await refusal([Ticket], column("id", { snowflake: false })),
    "BadConfigError: ticket.id: it needs a tag, or { snowflake: true }",
  )
  assert.equal(
    await refusal([Order, Line], { columns: [{ entity: Order, property: "id", ids: "order" }] }),
    "BadConfigError: Order.id: it has IDs already",
  )
})

test("a property that would hold something else than its type says is refused", async () => {
  @Entity()
  class Wrong {
    @PrimaryColumn({ type: "varchar" })
    // @ts-expect-error An ID is never a number.
    @IdworkerId("order")
    id!: number
  }
  assert.equal(
    await refusal([Wrong]),
    "BadConfigError: IdworkerId of Wrong.id: the property is number, but TypeORM reads IDs as string",
  )
  @Entity()
  class Untransformed {
    @PrimaryColumn({ type: "varchar" })
    @IdworkerId("order")
    id!: bigint
  }
  assert.equal(
    await refusal([Untransformed]),
    "BadConfigError: IdworkerId of Untransformed.id: the property is bigint, but TypeORM reads IDs as string; add the transformer bigintId",
  )
  @Entity()
  class Transformed {
    @PrimaryColumn({ type: "varchar", transformer: bigintId })
    @IdworkerId("order")
    id!: string
  }
  assert.equal(
    await refusal([Transformed]),
    "BadConfigError: IdworkerId of Transformed.id: the property is string, but TypeORM reads IDs as bigint",
  )
  @Entity()
  class Generated {
    @PrimaryGeneratedColumn()
    // @ts-expect-error An ID is never a number.
    @IdworkerId("order")
    id!: number
  }
  assert.equal(
    await refusal([Generated]),
    "BadConfigError: IdworkerId of Generated.id: the database generates its values; use PrimaryColumn",
  )
})

test("bad calls are refused", async () => {
  assert.equal(
    await refusal([Order, Line], {}, 2),
    "BadConfigError: the data source has IDs already: call attachIdworker once",
  )
  assert.equal(
    await refusal([Ticket]),
    "BadConfigError: no entity of the data source has a column with IdworkerId",
  )
  assert.equal(
    await refusal([Order, Line], { wait: 0 }),
    "BadConfigError: wait is 0, but must be above 0 ms and below 2^31 ms",
  )
  assert.equal(
    await refusal([Order, Line], { wait: "2000" as unknown as number }),
    'BadConfigError: wait is "2000", but must be above 0 ms and below 2^31 ms',
  )
  assert.throws(() => attachIdworker(new DataSource({ type: "sqljs" }), new FakeIds(1n).client), {
    message: "the data source must be initialized before attachIdworker",
  })
  assert.throws(() => IdworkerId("my order")(new Order(), "id"), {
    message:
      "IdworkerId of Order.id: malformed tag: ' ' at byte 2, allowed are A-Z a-z 0-9 _ - and dots between tokens",
  })
})
