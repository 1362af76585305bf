/** The code of docs/typescript.md and of the package's README, which import the package by its name. */
import assert from "node:assert/strict"
import { execFile } from "node:child_process"
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { Idworker } from "@idworker/client"
import { NumberFormat } from "@idworker/client/number"
import { OpaqueIds } from "@idworker/client/opaque"
import { InMemoryIdworker } from "@idworker/client/testing"
import { attachIdworker } from "@idworker/client/typeorm"
import { connect } from "@nats-io/transport-node"
import { DataSource } from "typeorm"
import { CustomerOrder } from "./customer-order.mjs"
import { distinct } from "./fake-ids.mjs"
import { Installation, patience } from "./installation.mjs"

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
      const flags = span?.traceFlags.toString(16).padStart(2, "0")
      return span && `00-${span.traceId}-${span.spanId}-${flags}`
    },
  })

  await ids.next("order")
  for await (const { headers } of requests) {
    assert.equal(headers?.get("traceparent"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
  }
  await ids.close()
  await nc.close()
})

test("the log of the page", async () => {
  const lines: unknown[][] = []
  const logger = {
    warn: (...line: unknown[]) => lines.push(line),
    info: (...line: unknown[]) => lines.push(line),
  }
  const nc = await connect({ servers: installation.url })

  const ids = new Idworker(nc, {
    log: {
      warn: (event, fields) => logger.warn(fields, event),
      info: (event, fields) => logger.info(fields, event),
    },
  })

  await nc.close()
  await assert.rejects(ids.next("order"))
  assert.deepEqual(lines, [
    [
      { subject: "ids.segment.order", error: "request ids.segment.order: connection closed" },
      "ID requests fail",
    ],
  ])
})

test("TypeORM's entities of the page", async () => {
  const servers = installation.url
  const nc = await connect({ servers, maxReconnectAttempts: -1 })
  const ids = new Idworker(nc)
  const dataSource = new DataSource({ type: "sqljs", entities: [CustomerOrder], synchronize: true })

  await dataSource.initialize()
  attachIdworker(dataSource, ids)

  const orders = dataSource.getRepository(CustomerOrder)
  const save = async () => {
    const saved = await orders.save({ name: "a" })
    return [saved, ...(await orders.save([{ name: "b" }, { name: "c" }]))]
  }
  const rows = await repeated(save)
  assert.equal(distinct(rows.map(({ id }) => id)).length, 3)
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

function extended(ids: InMemoryIdworker) {
  const prisma = { $extends: (extension: Extension) => extension }

  const orders = ids.prefetch("order")

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
  const order = extended(new InMemoryIdworker())
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
  await installation.createTag("ticket.*", "--template", "--dated", "yyyyMMdd", "--order", "strict")
  const nc = await connect({ servers: installation.url })
  const ids = new Idworker(nc, { timeout: patience })
  const folder = await mkdtemp(join(tmpdir(), "page-"))
  const keys = join(folder, "keys")
  await writeFile(keys, `1 ${Buffer.alloc(32).toString("base64")}`)
  const id = 1234n

  const orders = (await OpaqueIds.load(keys)).texts("order", "ord")
  const text = orders.seal(id)

  const tickets = new NumberFormat("ticket", "TCK-{yyyyMMdd}-{seq:6}", "Asia/Shanghai")
  const number = await tickets.next(ids, new Date())

  assert.equal(orders.open(text), id)
  assert.match(number, /^TCK-\d{8}-\d{6}$/)
  await rm(folder, { recursive: true })
  await ids.close()
  await nc.close()
})

const root = new URL("../../", import.meta.url)
const run = promisify(execFile)

/** A project that has installed the packed client, and the NATS client of these tests, so that it needs no network. */
async function installed(folder: string): Promise<void> {
  const modules = join(folder, "node_modules")
  const client = join(modules, "@idworker", "client")
  await mkdir(client, { recursive: true })
  await symlink(fileURLToPath(new URL("node_modules/@nats-io", root)), join(modules, "@nats-io"))
  // The scripts would build the package again, below the tests that run.
  const { stdout } = await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", folder], {
    cwd: fileURLToPath(root),
  })
  const { filename } = JSON.parse(stdout)[0]
  await run("tar", ["-xzf", join(folder, filename), "-C", client, "--strip-components=1"])
}

test("the program of the README, in projects that installed the package", async () => {
  const [, program] = /```js\n(.*?)```/s.exec(await readFile(new URL("README.md", root), "utf8")) ?? []
  const imports = /import (.*) from (".*")/g
  const folder = await mkdtemp(join(tmpdir(), "readme-"))
  try {
    await installed(folder)
    await writeFile(join(folder, "first.mjs"), program!)
    const commonJS = program!.replaceAll(imports, "const $1 = require($2)")
    await writeFile(join(folder, "first.cjs"), `void (async () => {\n${commonJS}})()`)
    for (const name of ["first.mjs", "first.cjs"]) {
      const { stdout } = await run(process.execPath, [name], {
        cwd: folder,
        env: { ...process.env, NATS_URL: installation.url },
        timeout: patience,
      })
      assert.match(stdout, /^\d+n\n\d+n \d+n\n$/, name)
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})

test("the page names the tarball of this version", async () => {
  const { version } = JSON.parse(await readFile(new URL("package.json", root), "utf8"))
  const page = await readFile(new URL("../../../docs/typescript.md", root), "utf8")
  assert.ok(page.includes(`/dist/clients/idworker-client-${version}.tgz`))
})
