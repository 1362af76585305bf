import { type ChildProcess, execFile, spawn } from "node:child_process"
import { copyFile, mkdtemp, rename, rm } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"

/** The longest wait for a state, in ms. Only a hang reaches it. */
export const patience = 300_000

/** Waits until a condition holds. */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + patience
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not within ${patience / 1000} s: ${what}`)
    await sleep(5)
  }
}

/** A process of the binary. It ends with the process of the test at the latest. */
export class Running {
  /** Settles when the process has ended. */
  readonly ended: Promise<void>
  readonly #child: ChildProcess
  #output = ""

  /** @internal */
  constructor(binary: string, folder: string, args: readonly string[]) {
    const child = spawn(binary, args, { cwd: folder, env: neutral(), stdio: ["ignore", "pipe", "pipe"] })
    this.#child = child
    children.add(child)
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        this.#output += text
      })
    }
    this.ended = new Promise((resolve) => {
      child.once("error", (error) => {
        this.#output += `${error}\n`
      })
      child.once("close", () => {
        children.delete(child)
        resolve()
      })
    })
  }

  /** Kills it as a crash does, and waits for its end. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL")
    await this.ended
  }

  /** Stops it, so that it is there, but neither replies nor notices that time passes. */
  pause(): void {
    this.#child.kill("SIGSTOP")
  }

  /** Lets it go on. */
  resume(): void {
    this.#child.kill("SIGCONT")
  }

  /** Waits until its log says that it serves. @internal */
  async serves(): Promise<void> {
    let alive = true
    void this.ended.then(() => {
      alive = false
    })
    await until(`serving: ${this.#child.spawnargs.join(" ")}`, () => {
      if (!alive) throw new Error(`${this.#child.spawnargs.join(" ")} ended: ${this.#output}`)
      return this.#output.includes("serving")
    })
  }
}

/**
 * A real installation: one process with NATS, loader and worker, and the workers
 * that a test starts beside it. The binary is that of IDWORKER_BIN, or is built
 * from this repository, for which Go is needed. Close it: otherwise the test's
 * process does not end.
 */
export class Installation {
  /** The URL of the NATS server. */
  readonly url: string
  readonly #binary: string
  readonly #folder: string
  readonly #running: Running[] = []

  private constructor(binary: string, folder: string, url: string) {
    this.#binary = binary
    this.#folder = folder
    this.url = url
  }

  /** Starts one, and waits until it serves. The arguments are more flags of `idworker serve`. */
  static async start(...flags: string[]): Promise<Installation> {
    const [binary, folder, port] = [
      await build(),
      await mkdtemp(join(tmpdir(), "idworker-")),
      await freePort(),
    ]
    const made = new Installation(binary, folder, `nats://127.0.0.1:${port}`)
    try {
      await made.#launch("--listen", `127.0.0.1:${port}`, "--data", join(folder, "data"), ...flags)
      return made
    } catch (error) {
      await made.close()
      throw error
    }
  }

  /** Creates a tag. The arguments are flags of `idworker tag create`. */
  async createTag(tag: string, ...flags: string[]): Promise<void> {
    await this.run("tag", "create", tag, ...flags)
  }

  /** Runs a command of the binary against this installation, and returns what it printed. */
  run(...args: string[]): Promise<string> {
    return output(this.#binary, this.#folder, [...args, "--server", this.url])
  }

  /** Starts a worker process beside the first one, and waits until it serves. */
  startWorker(): Promise<Running> {
    return this.#launch("--server", this.url, "--role", "worker")
  }

  /** Ends all processes and deletes their data. */
  async close(): Promise<void> {
    await Promise.all(this.#running.map((each) => each.kill()))
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #launch(...flags: string[]): Promise<Running> {
    const running = new Running(this.#binary, this.#folder, ["serve", ...flags])
    this.#running.push(running)
    await running.serves()
    return running
  }
}

const children = new Set<ChildProcess>()

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL")
})
// A signal alone would end this process without that.
for (const [signal, number] of [["SIGHUP", 1] as const, ["SIGINT", 2] as const, ["SIGTERM", 15] as const]) {
  process.once(signal, () => process.exit(128 + number))
}

/** The environment without variables that the binary reads: a developer's would decide tests. */
function neutral(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(NATS|IDWORKER)_/.test(name)))
}

function output(binary: string, folder: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { cwd: folder, env: neutral(), timeout: patience }
    execFile(binary, args, options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout)
      else reject(new Error(`${binary} ${args.join(" ")}: ${error.message}\n${stdout}${stderr}`))
    })
  })
}

async function build(): Promise<string> {
  const given = process.env.IDWORKER_BIN
  if (given !== undefined) return given
  const root = fileURLToPath(new URL("../../../../../", import.meta.url)) // of dist/test/installation.js
  const built = join(root, "bin", "idworker")
  // Test files run at the same time: none may find the binary half written. Go
  // leaves a copy of the present one as it is, if nothing has changed.
  const own = `${built}-${process.pid}`
  try {
    await copyFile(built, own).catch(() => {}) // the first build
    await output("go", root, ["build", "-o", own, "./cmd/idworker"])
    await rename(own, built)
  } finally {
    await rm(own, { force: true })
  }
  return built
}

/**
 * A port below those that the kernel gives to connections, which could take one
 * before the server does, and below those of testing/freeport.
 */
async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const port = 10_000 + Math.floor(5_000 * Math.random())
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer()
      server.once("error", () => resolve(false))
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
    })
    if (isFree) return port
  }
  throw new Error("no free port between 10000 and 15000")
}
