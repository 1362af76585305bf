import assert from "node:assert/strict"
import { execFile } from "node:child_process"
import { readFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { test } from "node:test"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"

const root = new URL("../../", import.meta.url)
const manifest = JSON.parse(await readFile(new URL("package.json", root), "utf8"))
const entries = Object.entries<string>(manifest.exports).filter(([name]) => name !== "./package.json")

/** The packages that a module needs, and its own modules need, as it is loaded. */
async function packages(module: URL, seen = new Set<string>()): Promise<string[]> {
  if (seen.has(module.href)) return []
  seen.add(module.href)
  const source = await readFile(module, "utf8")
  const found: string[] = []
  for (const [, name] of source.matchAll(/\brequire\("([^"]+)"\)/g)) {
    found.push(...(name!.startsWith(".") ? await packages(new URL(name!, module), seen) : [name!]))
  }
  return [...new Set(found)].filter((name) => !name.startsWith("node:")).sort()
}

/** Peers are optional, so a sub-path needs its own alone, and the client none of them. */
test("each entry of the package needs only its own peer", async () => {
  const of = (entry: string) => packages(new URL(`../src/${entry}.js`, import.meta.url))
  assert.deepEqual(await of("index"), ["@nats-io/nats-core"])
  assert.deepEqual(await of("testing"), [])
  assert.deepEqual(await of("typeorm"), [])
  assert.deepEqual(await of("opaque"), ["@noble/ciphers/ff1.js"])
  assert.deepEqual(await of("number"), [])
})

/** Jest has a loader of its own, which refuses ES modules. @noble/ciphers is one, so Jest must transform it. */
test("CommonJS loads each entry without a single ES module, but for that of @noble/ciphers", async () => {
  for (const [name] of entries.filter(([name]) => name !== "./opaque")) {
    const program = `if (Object.keys(require("${name.replace(".", "@idworker/client")}")).length === 0) throw "empty"`
    await promisify(execFile)(process.execPath, ["--no-experimental-require-module", "-e", program], {
      cwd: fileURLToPath(root),
    })
  }
})

/** Two copies would have two classes of each error, of which instanceof knows one. */
test("import and require load the same module", async () => {
  const require = createRequire(import.meta.url)
  for (const [name] of entries) {
    const specifier = name.replace(".", "@idworker/client")
    const [required, imported] = [require(specifier), await import(specifier)]
    for (const key of Object.keys(required)) assert.equal(imported[key], required[key], `${name}: ${key}`)
  }
})

test("compilers that do not read the exports find the same types", () => {
  const types = (file: string) => file.replace(/\.js$/, ".d.ts")
  assert.deepEqual(
    { ".": manifest.types, ...prefixed(manifest.typesVersions["*"]) },
    Object.fromEntries(entries.map(([name, file]) => [name, types(file)])),
  )
  assert.equal(manifest.main, manifest.exports["."])
})

function prefixed(paths: Record<string, string[]>): Record<string, string> {
  return Object.fromEntries(Object.entries(paths).map(([name, [file]]) => [`./${name}`, file!]))
}
