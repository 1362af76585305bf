/** The unit tests of docs/typescript.md, which need no worker. */
import assert from "node:assert/strict"
import { test } from "node:test"
import type { Ids } from "@idworker/client"
import { InMemoryIdworker } from "@idworker/client/testing"
import { attachIdworker } from "@idworker/client/typeorm"
import { DataSource } from "typeorm"
import { CustomerOrder } from "./customer-order.mjs"

class OrderService {
  readonly #ids: Ids

  constructor(ids: Ids) {
    this.#ids = ids
  }

  async place(name: string) {
    return { id: await this.#ids.next("order"), name }
  }
}

test("an order gets an ID", async () => {
  const service = new OrderService(new InMemoryIdworker())
  assert.deepEqual(await service.place("a"), { id: 1n, name: "a" })
  assert.deepEqual(await service.place("b"), { id: 2n, name: "b" })
})

test("an entity is saved with an ID", async () => {
  const dataSource = new DataSource({ type: "sqljs", entities: [CustomerOrder], synchronize: true })
  await dataSource.initialize()
  attachIdworker(dataSource, new InMemoryIdworker())
  const { id } = await dataSource.getRepository(CustomerOrder).save({ name: "a" })
  assert.equal(id, 1n)
})
