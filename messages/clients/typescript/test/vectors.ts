import assert from "node:assert/strict"
import { readFile } from "node:fs/promises"
import { invisible } from "../src/arguments.js"
import { BadTagError } from "../src/errors.js"
import { DocumentNumberError, NumberFormat } from "../src/number.js"
import { OpaqueIdError, OpaqueIds } from "../src/opaque.js"

/** How many cases a section has, and a text for each that failed. */
export interface Checked {
  cases: Record<string, number>
  failed: string[]
}

/** What each case says. */
interface Case {
  why: string
  /** The kind of the error, if one is due. */
  error?: string
}

interface KeyFile extends Case {
  file: string
  fingerprint?: string
}

/** A case of an ID, or of what is opened. */
interface Sealing extends Case {
  keys: string
  form: "number" | "text"
  bits: number
  tag: string
  prefix?: string
  id?: string
  sealed?: string
}

/** A case of a number that is made, of one that is read, or of a format alone. */
interface Document extends Case {
  base: string
  format: string
  zone: string
  at?: string
  seq?: string
  tag?: string
  number?: string
  parse?: string
}

interface Vectors {
  opaque: {
    keys: Record<string, KeyFile>
    seal: Sealing[]
    open: Sealing[]
    bad: Sealing[]
    bad_keys: KeyFile[]
  }
  numbers: { cases: Document[] }
}

/** Checks this client with the sections opaque and numbers of messages/testdata/vectors.json. */
export async function checkVectors(file: string | URL): Promise<Checked> {
  const { opaque, numbers }: Vectors = JSON.parse(await readFile(file, "utf8"))
  const checked: Checked = { cases: { opaque: 0, numbers: 0 }, failed: [] }
  const expect = (section: string, { why, error }: Case, check: () => void): void => {
    checked.cases[section]!++
    const [got, shown] = outcomeOf(check)
    if (got !== error || !isSentence(shown)) {
      checked.failed.push(`${section}: ${why}: ${shown}, want ${error ?? "no error"}`)
    }
  }
  for (const keys of [...Object.values(opaque.keys), ...opaque.bad_keys]) {
    expect("opaque", keys, () => assert.equal(OpaqueIds.parse(keys.file).fingerprint, keys.fingerprint))
  }
  for (const sealing of [...opaque.seal, ...opaque.open, ...opaque.bad]) {
    expect("opaque", sealing, () => {
      const { seal, open } = codecOf(OpaqueIds.parse(opaque.keys[sealing.keys]!.file), sealing)
      if (sealing.id !== undefined && !opaque.open.includes(sealing)) {
        assert.equal(seal(BigInt(sealing.id)), sealing.sealed)
      }
      if (sealing.sealed !== undefined) assert.equal(String(open(sealing.sealed)), sealing.id)
    })
  }
  for (const document of numbers.cases) expect("numbers", document, () => checkDocument(document))
  return checked
}

/** Returns either codec, with decimals as sealed numbers. */
function codecOf(keys: OpaqueIds, { form, tag, prefix, bits }: Sealing) {
  if (form === "text") {
    const texts = keys.texts(tag, prefix!)
    return { seal: (id: bigint) => texts.seal(id), open: (text: string) => texts.open(text) }
  }
  if (bits === 53) {
    const numbers = keys.numbers(tag, bits)
    return {
      seal: (id: bigint) => String(numbers.seal(id)),
      open: (text: string) => numbers.open(Number(text)),
    }
  }
  const numbers = keys.numbers(tag, bits as 63)
  return {
    seal: (id: bigint) => String(numbers.seal(id)),
    open: (text: string) => numbers.open(BigInt(text)),
  }
}

function checkDocument(document: Document): void {
  const { base, zone, at, parse } = document
  const format = new NumberFormat(base, document.format, zone)
  if (parse !== undefined) {
    format.parse(parse)
  } else if (at !== undefined) {
    const date = format.parseDate(at)
    const seq = BigInt(document.seq!)
    const number = format.number(date, seq)
    assert.deepEqual([number, format.tag(date)], [document.number, document.tag])
    const read = format.parse(number)
    assert.deepEqual([read.base, read.tag, read.seq], [base, document.tag, seq])
  }
}

/** Returns the file's name of the error, if any, and what to show of it. */
function outcomeOf(check: () => void): [kind: string | undefined, shown: string] {
  try {
    check()
    return [undefined, "no error"]
  } catch (error) {
    if (error instanceof BadTagError) return ["tag", error.message]
    if (error instanceof OpaqueIdError || error instanceof DocumentNumberError) {
      return [error.fault.replace("_", " "), error.message]
    }
    return ["none of the client's", String(error)]
  }
}

function isSentence(message: string): boolean {
  return message.length <= 350 && !invisible.test(message)
}
