import assert from "node:assert/strict"
import { after, before, test } from "node:test"
import { connect, type NodeConnectionOptions } from "@nats-io/transport-node"
import { drizzle } from "drizzle-orm/sql-js"
import { numeric, sqliteTable, text } from "drizzle-orm/sqlite-core"
import initSqlJs from "sql.js"
import { DataSource, EntitySchema } from "typeorm"
import { Idworker, type IdworkerOptions } from "../src/client.js"
import {
  CallTimeoutError,
  ConnectionEndedError,
  type IdworkerError,
  NoSuchTagError,
  StrictTagError,
} from "../src/errors.js"
import { withIds } from "../src/rows.js"
import { type AttachOptions, attachIdworker, bigintId } from "../src/typeorm.js"
import { distinct } from "./fake-ids.mjs"
import { Installation, patience, until } from "./installation.mjs"

let installation: Installation

before(async () => {
  installation = await Installation.start()
  await installation.createTag("order")
  await installation.createTag("ticket", "--order", "strict")
})

after(() => installation.close())

/** Lets a test use a client, on a connection that never gives up. */
async function withClient(options: IdworkerOptions, use: (ids: Idworker) => Promise<void>): Promise<void> {
  const nc = await connect({ servers: installation.url, maxReconnectAttempts: -1 })
  const ids = new Idworker(nc, options)
  try {
    await use(ids)
  } finally {
    await ids.close()
    await nc.close()
  }
}

const Row = new EntitySchema<{ id: bigint; name: string }>({
  name: "row",
  columns: {
    id: { type: "varchar", primary: true, transformer: bigintId },
    name: { type: String },
  },
})

async function openTypeOrm(ids: Idworker, tag: string, options: AttachOptions = {}): Promise<DataSource> {
  const source = await new DataSource({ type: "sqljs", entities: [Row], synchronize: true }).initialize()
  attachIdworker(source, ids, {
    wait: patience,
    ...options,
    columns: [{ entity: Row, property: "id", ids: tag }],
  })
  return source
}

const row = sqliteTable("row", {
  id: numeric({ mode: "bigint" }).primaryKey(),
  name: text().notNull(),
})

async function openDrizzle() {
  const { Database } = await initSqlJs()
  const db = drizzle(
    new Database().run("create table row (id numeric primary key not null, name text not null)"),
  )
  return db
}

const names = (n: number) => Array.from({ length: n }, (_, i) => ({ name: `${i}` }))

// The buffers are small, so that their requests go on until the last row.
const small = { limit: 200, maxBatch: 50 }
const rowsOfEach = 10_000
const bulk = 50

test("10,000 rows of each mapper get IDs while a worker is killed and another frozen", async () => {
  const [killed, frozen] = [await installation.startWorker(), await installation.startWorker()]
  let inserted = 0
  await withClient({ timeout: patience }, async (ids) => {
    const source = await openTypeOrm(ids, "order", { prefetch: small })
    const orders = ids.prefetch("order", small)
    const db = await openDrizzle()
    const entities = async () => {
      for (let i = 0; i < rowsOfEach; i += bulk) {
        await source.getRepository(Row).save(names(bulk))
        inserted += bulk
      }
    }
    const rows = async () => {
      for (let i = 0; i < rowsOfEach / 4; i += bulk) {
        await db.insert(row).values(await withIds(orders, names(bulk)))
        inserted += bulk
      }
    }
    const inserts = Promise.all([entities(), rows(), rows(), rows(), rows()])
    const disturb = async () => {
      await until("a quarter of the rows", () => inserted >= rowsOfEach / 2)
      await killed.kill()
      await until("half of the rows", () => inserted >= rowsOfEach)
      frozen.pause()
    }
    inserts.catch(() => {
      inserted = Number.POSITIVE_INFINITY // nobody waits for more
    })
    await Promise.all([inserts, disturb()])
    frozen.resume()
    const stored = [...(await source.getRepository(Row).find()), ...db.select().from(row).all()]
    assert.equal(distinct(stored.map(({ id }) => id)).length, 2 * rowsOfEach)
  })
})

test("rows of a strict tag ascend if they are saved one by one", async () => {
  await withClient({}, async (ids) => {
    const source = await openTypeOrm(ids, "ticket")
    const saved: bigint[] = []
    for (const row of names(20)) saved.push((await source.getRepository(Row).save({ ...row })).id)
    assert.deepEqual(
      saved,
      [...distinct(saved)].sort((a, b) => (a < b ? -1 : 1)),
    )
    const together = await source.getRepository(Row).save(names(100))
    distinct([...saved, ...together.map(({ id }) => id)])
  })
})

/** Saves a row by TypeORM and returns its error. */
async function failure(options: IdworkerOptions, tag: string, wait = patience): Promise<IdworkerError> {
  let thrown: unknown
  await withClient(options, async (ids) => {
    const source = await openTypeOrm(ids, tag, { wait })
    await assert.rejects(source.getRepository(Row).save({ name: "a" }), (error) => {
      thrown = error
      return true
    })
  })
  return thrown as IdworkerError
}

test("errors of TypeORM's rows", async () => {
  const unknown = await failure({}, "nosuch")
  assert.ok(unknown instanceof NoSuchTagError && !unknown.retryable)
  assert.match(unknown.message, /ids\.segment\.nosuch/)
  const elsewhere = await failure({ prefix: "elsewhere" }, "order", 200)
  assert.ok(elsewhere instanceof CallTimeoutError && elsewhere.retryable)
  assert.match(elsewhere.message, /elsewhere\.segment\.order/)
})

test("errors of Drizzle's rows", async () => {
  await withClient({ timeout: patience }, async (ids) => {
    await assert.rejects(withIds(ids.prefetch("nosuch"), names(1)), NoSuchTagError)
    await assert.rejects(withIds(ids.prefetch("ticket"), names(1)), StrictTagError)
  })
})

test("a connection that was closed ends the insert", async () => {
  const options: NodeConnectionOptions = { servers: installation.url }
  const nc = await connect(options)
  const ids = new Idworker(nc)
  await nc.close()
  const source = await openTypeOrm(ids, "order")
  await assert.rejects(source.getRepository(Row).save({ name: "a" }), ConnectionEndedError)
  await assert.rejects(ids.prefetch("order").ready(1), ConnectionEndedError)
  await ids.close()
})
