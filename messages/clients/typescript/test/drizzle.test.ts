import assert from "node:assert/strict"
import { test } from "node:test"
import { eq, placeholder, type SQL, sql } from "drizzle-orm"
import { bigint as mysqlBigint, mysqlTable } from "drizzle-orm/mysql-core"
import { drizzle as mysql } from "drizzle-orm/mysql-proxy"
import {
  type PgTable,
  integer as pgInteger,
  pgTable,
  bigint as postgresBigint,
  text as postgresText,
} from "drizzle-orm/pg-core"
import { drizzle as postgres } from "drizzle-orm/pg-proxy"
import { drizzle, type SQLJsDatabase } from "drizzle-orm/sql-js"
import { blob, integer, numeric, sqliteTable, text } from "drizzle-orm/sqlite-core"
import initSqlJs from "sql.js"
import { rowId } from "../src/drizzle.js"
import { BufferEmptyError, StrictTagError } from "../src/errors.js"
import type { Prefetcher } from "../src/prefetch.js"
import { distinct, FakeIds } from "./fake-ids.js"

/** The first ID that a JavaScript number cannot hold. */
const large = 2n ** 53n + 1n

const { Database } = await initSqlJs()

function open() {
  const ids = new FakeIds(large)
  const orders = ids.client.prefetch("order")
  const order = sqliteTable("order", {
    id: numeric({ mode: "bigint" }).primaryKey().$defaultFn(rowId(orders)),
    name: text().notNull().unique(),
    amount: integer(),
  })
  const database = new Database()
  database.run(
    `create table "order" (id numeric primary key not null, name text not null unique, amount integer)`,
  )
  const db = drizzle(database)
  const stored = () =>
    db
      .select({ id: order.id })
      .from(order)
      .orderBy(order.name)
      .all()
      .map(({ id }) => id)
  return { ids, orders, order, db, stored }
}

const names = (n: number) => Array.from({ length: n }, (_, i) => ({ name: `${i}`.padStart(5, "0") }))

test("each row of an insert has its ID, exactly", async () => {
  const { orders, order, db, stored } = open()
  await orders.ready(1000)
  const returned = await db.insert(order).values(names(1000)).returning()
  assert.deepEqual(distinct(returned.map(({ id }) => id)), stored())
  assert.ok(stored().every((id) => id >= large))
})

test("an insert is built once and run twice", async () => {
  const { orders, order, db, stored } = open()
  await orders.ready(6)
  const prepared = db
    .insert(order)
    .values([{ name: placeholder("a") }, { name: placeholder("b") }])
    .prepare()
  prepared.run({ a: "a1", b: "b1" })
  prepared.run({ a: "a2", b: "b2" })
  assert.equal(distinct(stored()).length, 4)
  const unprepared = db.insert(order).values({ name: "c" }).onConflictDoNothing()
  await unprepared
  await unprepared
  assert.equal(distinct(stored()).length, 5)
})

test("the values of a prepared insert must be an ordinary object", async () => {
  const { orders, order, db } = open()
  await orders.ready(1)
  const prepared = db
    .insert(order)
    .values({ name: placeholder("a") })
    .prepare()
  assert.throws(
    () => prepared.run(Object.assign(Object.create(null), { a: "a" })),
    /No value for placeholder/,
  )
})

// It shows why rowId is there: Drizzle calls a plain default when it builds the statement.
test("a prepared insert with take as its default is refused by the key", async () => {
  const { orders, db } = open()
  const plain = sqliteTable("order", {
    id: numeric({ mode: "bigint" }).primaryKey().$defaultFn(orders.take),
    name: text().notNull(),
  })
  await orders.ready(1)
  const prepared = db
    .insert(plain)
    .values({ name: placeholder("name") })
    .prepare()
  prepared.run({ name: "a" })
  assert.throws(() => prepared.run({ name: "b" }), /UNIQUE constraint failed: order\.id/)
})

test("an insert from a select is refused", async () => {
  const { orders, order, db, stored } = open()
  await orders.ready(100)
  await db.insert(order).values(names(2))
  assert.throws(
    () =>
      db
        .insert(order)
        .select(db.select({ name: sql`name || '2'`.as("name"), amount: order.amount }).from(order)),
    /selected fields are not the same/,
  )
  const again = db.select({
    id: sql<bigint>`${orders.take()}`.as("id"),
    name: sql<string>`name || '2'`.as("name"),
    amount: order.amount,
  })
  await assert.rejects(
    async () => db.insert(order).select(again.from(order)),
    /UNIQUE constraint failed: order\.id/,
  )
  assert.equal(stored().length, 2)
})

test("an insert that finds its row leaves the row its ID", async () => {
  const { orders, order, db, stored } = open()
  await orders.ready(3)
  await db.insert(order).values({ name: "a" })
  const before = stored()
  const upsert = db
    .insert(order)
    .values({ name: "a", amount: 7 })
    .onConflictDoUpdate({ target: order.name, set: { amount: 7 } })
    .returning()
  assert.deepEqual(await upsert, [{ id: before[0], name: "a", amount: 7 }])
  assert.deepEqual(await upsert, [{ id: before[0], name: "a", amount: 7 }])
  assert.deepEqual(stored(), before)
})

test("an insert that was rolled back is repeated with other IDs", async () => {
  const { orders, order, db, stored } = open()
  await orders.ready(4)
  const first: bigint[] = []
  assert.throws(() =>
    db.transaction((tx) => {
      first.push(
        ...tx
          .insert(order)
          .values(names(2))
          .returning()
          .all()
          .map(({ id }) => id),
      )
      tx.rollback()
    }),
  )
  assert.deepEqual(stored(), [])
  db.transaction((tx) => tx.insert(order).values(names(2)).run())
  assert.equal(distinct([...first, ...stored()]).length, 4)
})

test("an ID of the application's is kept", async () => {
  const { ids, order, db, stored } = open()
  await db.insert(order).values({ id: 7n, name: "a" })
  assert.deepEqual(stored(), [7n])
  assert.equal(ids.requests.length, 0)
})

test("many callers that wait for the buffer all find their IDs", async () => {
  const { orders, order, db, stored } = open()
  const insert = async (caller: number) => {
    for (let i = 0; i < 5; i++) {
      const rows = names(20).map(({ name }) => ({ name: `${caller}-${i}-${name}` }))
      await orders.ready(rows.length)
      await db.insert(order).values(rows)
    }
  }
  await Promise.all(Array.from({ length: 50 }, (_, caller) => insert(caller)))
  assert.equal(distinct(stored()).length, 5000)
})

test("an empty buffer refuses the insert, and so does a strict tag", async () => {
  const { ids, orders, order, db, stored } = open()
  const insert = async () => db.insert(order).values({ name: "a" })
  await assert.rejects(insert, (error) => error instanceof BufferEmptyError && error.retryable)
  await orders.ready(1)
  await insert()
  assert.equal(stored().length, 1)
  const strict = new StrictTagError("request ids.segment.ticket: strict (409)", { code: 409 })
  ids.refusal = () => strict
  await assert.rejects(ids.client.prefetch("ticket").ready(1), (error) => error === strict)
})

/** Inserts a row by a driver that keeps the parameters, and returns them. */
async function parameters(id: (orders: Prefetcher) => PgTable): Promise<unknown[]> {
  const orders = new FakeIds(large).client.prefetch("order")
  const seen: unknown[] = []
  const db = postgres(async (_, params) => {
    seen.push(...params)
    return { rows: [] }
  })
  await orders.ready(1)
  await db.insert(id(orders)).values({})
  return seen
}

test("an ID is what the column's driver expects", async () => {
  assert.deepEqual(
    await parameters((orders) =>
      pgTable("order", { id: postgresBigint({ mode: "bigint" }).primaryKey().$defaultFn(rowId(orders)) }),
    ),
    [large],
  )
  assert.deepEqual(
    await parameters((orders) =>
      pgTable("order", { id: postgresText().primaryKey().$defaultFn(rowId(orders)) }),
    ),
    [`${large}`],
  )
  const { orders, db } = open()
  await orders.ready(1)
  const blobs = sqliteTable("order", {
    id: blob({ mode: "bigint" }).primaryKey().$defaultFn(rowId(orders)),
    name: text().notNull(),
  })
  await db.insert(blobs).values({ name: "a" })
  assert.deepEqual(await db.select().from(blobs).where(eq(blobs.id, large)), [{ id: large, name: "a" }])
})

test("MySQL's $returningId returns the ID, and the key refuses a prepared insert that is run again", async () => {
  const orders = new FakeIds(large).client.prefetch("order")
  const order = mysqlTable("order", {
    id: mysqlBigint({ mode: "bigint" }).primaryKey().$defaultFn(rowId(orders)),
  })
  const keys = new Set<unknown>()
  const db = mysql(async (_, [id]) => {
    if (keys.has(id)) throw new Error("Duplicate entry")
    keys.add(id)
    return { rows: [{ insertId: 0, affectedRows: 1 }] }
  })
  await orders.ready(2)
  assert.deepEqual(await db.insert(order).values({}).$returningId(), [{ id: large }])
  assert.deepEqual([...keys], [large])
  const prepared = db.insert(order).values({}).prepare()
  await prepared.execute()
  await assert.rejects(prepared.execute(), ({ cause }) => cause.message === "Duplicate entry")

  const keyless = mysqlTable("order", { id: mysqlBigint({ mode: "bigint" }).$defaultFn(rowId(orders)) })
  assert.throws(() => db.insert(keyless).values({}).toSQL(), {
    message:
      "order.id: the column must have primaryKey() or unique(), so that a prepared insert cannot repeat its ID",
  })
})

test("parameters that Drizzle does not run are refused", async () => {
  const { orders, order, db } = open()
  await orders.ready(1)
  const { params } = db.insert(order).values({ name: "a" }).toSQL()
  assert.throws(() => JSON.stringify(params), {
    message: "order.id: rowId has no ID for toSQL() and batch(): use $defaultFn(orders.take)",
  })
  assert.throws(() => new Database().run("select ?", params))
})

test("a column of bigint or text is accepted by the compiler", () => {
  const orders = new FakeIds(large).client.prefetch("order")
  pgTable("order", {
    // TypeScript 5 infers these types, and 7 narrower ones.
    id: postgresBigint({ mode: "bigint" }).primaryKey().$defaultFn(rowId<bigint | SQL>(orders)),
    text: postgresText().$defaultFn(rowId<string | SQL>(orders)),
  })
})

test("a column of numbers is refused, by the compiler and as it runs", async () => {
  const orders = new FakeIds(large).client.prefetch("order")
  const db: SQLJsDatabase = drizzle(new Database())
  const numbers = sqliteTable("order", {
    // @ts-expect-error An ID is never a number.
    id: integer().primaryKey().$defaultFn(rowId(orders)),
  })
  assert.throws(() => db.insert(numbers).values({}).toSQL(), {
    message: "order.id: the column holds number, but must hold bigint or string",
  })
  pgTable("order", {
    // @ts-expect-error An ID is never a number.
    id: postgresBigint({ mode: "number" }).$defaultFn(rowId(orders)),
    // @ts-expect-error An ID is never a number.
    other: pgInteger().$defaultFn(orders.take),
  })
  assert.throws(() => rowId(orders)(), { message: "rowId makes a function for $defaultFn of a column" })
})
