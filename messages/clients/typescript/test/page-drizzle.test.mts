/** The code for Drizzle of docs/typescript.md. */
import assert from "node:assert/strict"
import { test } from "node:test"
import { withIds } from "@idworker/client"
import { InMemoryIdworker } from "@idworker/client/testing"
import { bigint, pgTable, text } from "drizzle-orm/pg-core"
import { drizzle } from "drizzle-orm/pg-proxy"

const order = pgTable("order", {
  id: bigint({ mode: "bigint" }).primaryKey(),
  name: text(),
})

test("Drizzle's rows of the page", async () => {
  const inserted: unknown[] = []
  const db = drizzle(async (_, parameters) => {
    inserted.push(...parameters)
    return { rows: [] }
  })
  const ids = new InMemoryIdworker()
  const rows = [{ name: "a" }, { name: "b" }]

  const orders = ids.prefetch("order")
  await db.insert(order).values(await withIds(orders, rows))

  assert.deepEqual(inserted, [1n, "a", 2n, "b"])
})
