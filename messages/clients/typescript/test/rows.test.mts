import assert from "node:assert/strict"
import { test } from "node:test"
import { asc, placeholder } from "drizzle-orm"
import { drizzle } from "drizzle-orm/sql-js"
import { numeric, sqliteTable, text } from "drizzle-orm/sqlite-core"
import initSqlJs from "sql.js"
import { BadCountError, StrictTagError } from "../src/errors.js"
import { withIds } from "../src/rows.js"
import { distinct, FakeIds } from "./fake-ids.mjs"

/** The first ID that a JavaScript number cannot hold. */
const large = 2n ** 53n + 1n

const { Database } = await initSqlJs()

const order = sqliteTable("order", {
  id: numeric({ mode: "bigint" }).primaryKey(),
  name: text().notNull(),
})

function open() {
  const ids = new FakeIds(large)
  const db = drizzle(
    new Database().run(`create table "order" (id numeric primary key not null, name text not null)`),
  )
  const stored = () => db.select().from(order).orderBy(asc(order.id)).all()
  return { ids, orders: ids.client.prefetch("order"), db, stored }
}

const names = (n: number) => Array.from({ length: n }, (_, i) => ({ name: `${i}` }))

test("each row of Drizzle's gets its ID, exactly, although nothing was buffered before", async () => {
  const { orders, db, stored } = open()
  await db.insert(order).values(await withIds(orders, names(1000)))
  assert.equal(distinct(stored().map(({ id }) => id)).length, 1000)
  assert.ok(stored().every(({ id }) => id >= large))
})

test("a prepared insert is run with rows that have IDs", async () => {
  const { orders, db, stored } = open()
  const prepared = db
    .insert(order)
    .values({ id: placeholder("id"), name: placeholder("name") })
    .prepare()
  for (const row of await withIds(orders, names(3))) prepared.run(row)
  assert.deepEqual(
    stored().map(({ id }) => id),
    [large, large + 1n, large + 2n],
  )
})

test("an insert that forgets the IDs fails always: for the compiler, and in the database", async () => {
  const { orders, db } = open()
  await orders.ready(100) // a warm buffer does not help
  // @ts-expect-error The ID is missing.
  await assert.rejects(async () => db.insert(order).values({ name: "a" }), /NOT NULL constraint failed/)
})

test("a row that has an ID keeps it, and the rows of the caller are not changed", async () => {
  const { ids, orders } = open()
  const rows = [{ id: 7n, name: "a" }, { name: "b" }, { id: undefined, name: "c" }]
  const [a, b, c] = await withIds(orders, rows)
  assert.deepEqual(a, { id: 7n, name: "a" })
  assert.deepEqual(b, { id: large, name: "b" })
  assert.deepEqual(c, { id: large + 1n, name: "c" })
  assert.deepEqual(rows, [{ id: 7n, name: "a" }, { name: "b" }, { id: undefined, name: "c" }])
  ids.requests.length = 0
  assert.deepEqual(await withIds(open().orders, []), [])
  assert.deepEqual(await withIds(orders, [{ id: 8n }]), [{ id: 8n }])
  assert.deepEqual(ids.requests, [])
})

test("rows may come from a set or a generator, and are read once", async () => {
  const { orders } = open()
  const named = function* () {
    yield { name: "b" }
    yield { id: 7n, name: "c" }
  }
  assert.deepEqual(
    [...(await withIds(orders, new Set([{ name: "a" }]))), ...(await withIds(orders, named()))],
    [
      { id: large, name: "a" },
      { id: large + 1n, name: "b" },
      { id: 7n, name: "c" },
    ],
  )
})

test("the property of the ID may have another name", async () => {
  const [row] = await withIds(open().orders, [{ name: "a" }], "orderId")
  const id: bigint = row!.orderId
  assert.deepEqual(row, { name: "a", orderId: id })
  assert.equal(id, large)
})

test("many callers at once get each ID once", async () => {
  const { orders } = open()
  const insert = async () => {
    const taken: bigint[] = []
    for (let i = 0; i < 5; i++) taken.push(...(await withIds(orders, names(20))).map(({ id }) => id))
    return taken
  }
  const taken = await Promise.all(Array.from({ length: 50 }, insert))
  assert.equal(distinct(taken.flat()).length, 5000)
})

test("a refusal reaches the caller: of a strict tag, and of more rows than the buffer's limit", async () => {
  const { ids } = open()
  await assert.rejects(withIds(ids.client.prefetch("order", { limit: 10 }), names(11)), BadCountError)
  const strict = new StrictTagError("request ids.segment.ticket: strict (409)", { code: 409 })
  ids.refusal = () => strict
  await assert.rejects(withIds(ids.client.prefetch("ticket"), names(1)), (error) => error === strict)
})
