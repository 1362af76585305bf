import type { Clock } from "../src/clock.js"

interface Task {
  readonly at: number
  readonly run: () => void
}

/** A clock that a test moves: tasks run in the test's turn, one by one. */
export class VirtualTime implements Clock {
  /** The time, in ms. */
  time = 0
  readonly #random: number
  #tasks: Task[] = [] // in the order of their making

  /** @param random what the clock's random source always returns */
  constructor(random: number) {
    this.#random = random
  }

  readonly wall = (): number => this.time
  readonly now = (): number => this.time
  readonly random = (): number => this.#random

  readonly after = (ms: number, run: () => void): unknown => {
    const task = { at: this.time + ms, run }
    this.#tasks.push(task)
    return task
  }

  readonly stop = (task: unknown): void => {
    this.#tasks = this.#tasks.filter((other) => other !== task)
  }

  readonly turn = (run: () => void): void => {
    this.after(0, run)
  }

  /** Goes to the next task, and runs it. */
  runNext(): void {
    const next = this.#tasks.reduce((first, task) => (task.at < first.at ? task : first))
    this.stop(next)
    this.time = next.at
    next.run()
  }
}
