/** The code of docs/typescript.md and of the package's README, which import the package by its name. */
import assert from "node:assert/strict"
import { execFile } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { Idworker } from "@idworker/client"
import { rowId } from "@idworker/client/drizzle"
import { NumberFormat } from "@idworker/client/number"
import { OpaqueIds } from "@idworker/client/opaque"
import { attachIdworker, bigintId, IdworkerId } from "@idworker/client/typeorm"
import { connect } from "@nats-io/transport-node"
import { placeholder } from "drizzle-orm"
import { bigint, pgTable, text } from "drizzle-orm/pg-core"
import { drizzle } from "drizzle-orm/pg-proxy"
import { Column, DataSource, Entity, PrimaryColumn } from "typeorm"
import { distinct } from "./fake-ids.js"
import { Installation, patience } from "./installation.js"

let installation: Installation

before(async () => {
  installation = await Installation.start()
  await installation.createTag("order")
})

after(() => installation.close())

test("the client of the page", async () => {
  const servers = installation.url

  const nc = await connect({ servers, maxReconnectAttempts: -1 })
  const ids = new Idworker(nc)
  const id = await ids.next("order")
  const batch = await ids.nextN("order", 100)
  const snowflake = await ids.snowflake()

  const orders = ids.prefetch("order")
  const first = await orders.next()
  await orders.ready(2)
  const rest = [orders.take(), orders.take()]

  assert.equal(distinct([id, ...batch, snowflake, first, ...rest]).length, 105)
  await ids.close()
  await nc.close()
})

/** Stands in for that of @opentelemetry/api, on which the client does not depend. */
const trace = { getActiveSpan: (): typeof activeSpan | undefined => activeSpan }
const activeSpan = {
  spanContext: () => ({
    traceId: "0af7651916cd43dd8448eb211c80319c",
    spanId: "b7ad6b7169203331",
    traceFlags: 1,
  }),
}

test("the traces of the page", async () => {
  const nc = await connect({ servers: installation.url })
  const requests = nc.subscribe("ids.segment.order", { max: 1 })
  await nc.flush()

  const ids = new Idworker(nc, {
    traceparent: () => {
      const span = trace.getActiveSpan()?.spanContext()
      return span && `00-${span.traceId}-${span.spanId}-0${span.traceFlags}`
    },
  })

  await ids.next("order")
  for await (const { headers } of requests) {
    assert.equal(headers?.get("traceparent"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
  }
  await ids.close()
  await nc.close()
})

@Entity()
export class CustomerOrder {
  @PrimaryColumn({ type: "bigint", transformer: bigintId })
  @IdworkerId("order")
  id!: bigint

  @Column({ type: "varchar" })
  name!: string
}

test("TypeORM's entities of the page", async () => {
  const servers = installation.url
  const nc = await connect({ servers, maxReconnectAttempts: -1 })
  const ids = new Idworker(nc)
  const dataSource = new DataSource({ type: "sqljs", entities: [CustomerOrder], synchronize: true })

  await dataSource.initialize()
  attachIdworker(dataSource, ids)

  const orders = dataSource.getRepository(CustomerOrder)
  const save = () => orders.save([{ name: "a" }, { name: "b" }])
  const saved = await repeated(save)
  assert.equal(distinct(saved.map(({ id }) => id)).length, 2)
  await ids.close()
  await nc.close()
})

/** The wait for a row's ID is short, and a test's machine may be slow. */
async function repeated<Result>(save: () => Promise<Result>): Promise<Result> {
  const end = performance.now() + patience
  for (;;) {
    try {
      return await save()
    } catch (error) {
      if ((error as Error).name !== "CallTimeoutError" || performance.now() > end) throw error
    }
  }
}

test("Drizzle's rows of the page", async () => {
  const nc = await connect({ servers: installation.url })
  const ids = new Idworker(nc, { timeout: patience })
  const inserted: unknown[] = []
  const db = drizzle(async (_, parameters) => {
    inserted.push(...parameters)
    return { rows: [] }
  })
  const rows = [{ name: "a" }, { name: "b" }]

  const orders = ids.prefetch("order")

  const order = pgTable("order", {
    id: bigint({ mode: "bigint" }).primaryKey().$defaultFn(rowId(orders)),
    name: text(),
  })

  await orders.ready(rows.length)
  await db.insert(order).values(rows)

  const prepared = db
    .insert(order)
    .values({ name: placeholder("name") })
    .prepare("insert_order")
  for (const name of ["c", "d"]) {
    await orders.ready(1)
    await prepared.execute({ name })
  }
  assert.equal(distinct(inserted).length, 8)
  await ids.close()
  await nc.close()
})

// Prisma's client is generated, and its generator downloads a program. So this
// has the types of what $extends takes.
interface Query<Data> {
  args: { data: Data }
  query: (args: { data: Data }) => Promise<unknown>
}

interface OrderData {
  id?: bigint
  name: string
}

interface Extension {
  query: {
    order: {
      create(call: Query<OrderData>): Promise<unknown>
      createMany(call: Query<OrderData | OrderData[]>): Promise<unknown>
    }
  }
}

function extended(orders: { next(): Promise<bigint> }) {
  const prisma = { $extends: (extension: Extension) => extension }

  const db = prisma.$extends({
    query: {
      order: {
        async create({ args, query }) {
          args.data.id ??= await orders.next()
          return query(args)
        },
        async createMany({ args, query }) {
          for (const row of [args.data].flat()) row.id ??= await orders.next()
          return query(args)
        },
      },
    },
  })
  return db.query.order
}

test("Prisma's rows of the page", async () => {
  let last = 0n
  const order = extended({ next: async () => ++last })
  const inserted: OrderData[] = []
  const query = async ({ data }: { data: OrderData | OrderData[] }) => inserted.push(...[data].flat())
  await order.create({ args: { data: { name: "a" } }, query })
  await order.create({ args: { data: { id: 7n, name: "b" } }, query })
  await order.createMany({ args: { data: [{ name: "c" }, { name: "d" }] }, query })
  assert.deepEqual(
    inserted.map(({ id }) => id),
    [1n, 7n, 2n, 3n],
  )
})

test("opaque IDs and numbers of the page", async () => {
  await installation.createTag("invoice.*", "--template", "--dated", "yyyyMMdd", "--order", "strict")
  const nc = await connect({ servers: installation.url })
  const ids = new Idworker(nc, { timeout: patience })
  const folder = await mkdtemp(join(tmpdir(), "page-"))
  const keys = join(folder, "keys")
  await writeFile(keys, `1 ${Buffer.alloc(32).toString("base64")}`)
  const id = 1234n

  const orders = (await OpaqueIds.load(keys)).texts("order", "ord")
  const text = orders.seal(id)

  const invoices = new NumberFormat("invoice", "INV-{yyyyMMdd}-{seq:6}", "Asia/Shanghai")
  const number = await invoices.next(ids, new Date())

  assert.equal(orders.open(text), id)
  assert.match(number, /^INV-\d{8}-\d{6}$/)
  await rm(folder, { recursive: true })
  await ids.close()
  await nc.close()
})

test("the program of the README", async () => {
  const root = new URL("../../", import.meta.url)
  const [, program] = /```js\n(.*?)```/s.exec(await readFile(new URL("README.md", root), "utf8")) ?? []
  const folder = await mkdtemp(fileURLToPath(new URL("dist/readme-", root)))
  try {
    await writeFile(join(folder, "first.mjs"), program!)
    const { stdout } = await promisify(execFile)(process.execPath, ["first.mjs"], {
      cwd: folder,
      env: { ...process.env, NATS_URL: installation.url },
      timeout: patience,
    })
    assert.match(stdout, /^\d+n\n\d+n \d+n\n$/)
  } finally {
    await rm(folder, { recursive: true })
  }
})
