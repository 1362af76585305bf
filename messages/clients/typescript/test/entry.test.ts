import assert from "node:assert/strict"
import { readFile } from "node:fs/promises"
import { test } from "node:test"

/** The packages that a module needs, and its own modules need, as it is loaded. */
async function packages(module: URL, seen = new Set<string>()): Promise<string[]> {
  if (seen.has(module.href)) return []
  seen.add(module.href)
  const source = await readFile(module, "utf8")
  const found: string[] = []
  for (const [, name] of source.matchAll(/^(?:import|export) (?:.* from )?"([^"]+)";$/gm)) {
    found.push(...(name!.startsWith(".") ? await packages(new URL(name!, module), seen) : [name!]))
  }
  return [...new Set(found)].filter((name) => !name.startsWith("node:")).sort()
}

/** Peers are optional, so a sub-path needs its own alone, and the client none of them. */
test("each entry of the package needs only its own peer", async () => {
  const of = (entry: string) => packages(new URL(`../src/${entry}.js`, import.meta.url))
  assert.deepEqual(await of("index"), ["@nats-io/nats-core"])
  assert.deepEqual(await of("typeorm"), [])
  assert.deepEqual(await of("drizzle"), ["drizzle-orm"])
  assert.deepEqual(await of("opaque"), ["@noble/ciphers/ff1.js"])
  assert.deepEqual(await of("number"), [])
})
