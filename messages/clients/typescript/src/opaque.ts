import { createHmac, hkdfSync } from "node:crypto"
import { readFile } from "node:fs/promises"
import { FF1 } from "@noble/ciphers/ff1.js"
import { checkTag, plain, quote, show } from "./arguments.js"
import { BadArgumentError } from "./errors.js"

/** What is wrong with a key file, a codec's arguments, an ID or an opaque ID. */
export type OpaqueIdFault = keyof typeof faults

const faults = {
  /** The key file is malformed. */
  keys: "malformed key file",
  /** The width is neither 63 nor 53 bits. */
  bits: "bad width",
  /** The key file has no key of the form. */
  no_key: "no key",
  /** The ID or the sealed number is below 1, too large for the width, or of another type. */
  range: "outside the width",
  /** The text has another prefix, or the prefix for a codec is malformed. */
  prefix: "wrong prefix",
  /** The text has too few or too many digits. */
  length: "wrong length",
  /** The text has a character that is no digit. */
  alphabet: "not a digit",
  /** The key file has no key of the text's generation. */
  generation: "unknown generation",
  /** The check digit is wrong: the text was sealed for another tag or with another key, or was mistyped. */
  check: "wrong check digit",
}

/** A key file, a codec's arguments, an ID or an opaque ID is not as {@link OpaqueIds} needs it. */
export class OpaqueIdError extends BadArgumentError {
  readonly fault: OpaqueIdFault

  /** @internal */
  constructor(fault: OpaqueIdFault, why: string) {
    super(`${faults[fault]}: ${why}`)
    this.fault = fault
  }
}

/** Seals IDs of one tag as numbers, which are of the type `bigint`, or `number` for 53 bits. */
export interface OpaqueNumbers<Sealed extends bigint | number> {
  /**
   * Returns the opaque number of an ID. Both are from 1 to 2^bits−1.
   *
   * @throws {OpaqueIdError} of the fault `range`
   */
  seal(id: bigint): Sealed
  /**
   * Returns the ID of an opaque number. Both are from 1 to 2^bits−1. A number that
   * `seal` never returned opens to some ID, too.
   *
   * @throws {OpaqueIdError} of the fault `range`
   */
  open(sealed: Sealed): bigint
}

/** Seals IDs of one tag as texts. */
export interface OpaqueTexts {
  /**
   * Returns the opaque text of an ID from 1 to 2^63−1, in lower case: the prefix,
   * `_`, and 15 digits.
   *
   * @throws {OpaqueIdError} of the fault `range`
   */
  seal(id: bigint): string
  /**
   * Returns the ID of an opaque text, from 1 to 2^63−1. Upper case is accepted in
   * the whole text. A text that `seal` never returned opens to some ID in 1 of 32
   * cases.
   *
   * @throws {OpaqueIdError} of the fault `prefix`, `length`, `alphabet`, `range`,
   * `generation` or `check`
   */
  open(text: string): bigint
}

/** The digits of texts, in ASCII order, without those that look like others. */
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

const numberName = "number" // of the key of numbers in a file
const keyBytes = 32
const fullBits = 63 // of any ID, and of the number in a text
const doubleBits = 53 // of integers that JavaScript's numbers hold exactly
const numberLength = 13 // digits of a sealed number in a text
const textLength = 1 + numberLength + 1 // with generation and check digit

/**
 * Turns IDs into opaque IDs and back. An opaque ID does not show how many IDs
 * there are, which came first, or when it was made.
 *
 * ```ts
 * const keys = await OpaqueIds.load("opaque.keys") // of idworker opaque keygen
 * const orders = keys.texts("order", "ord")
 * orders.seal(1n) // "ord_164g7p0fvrzk7g6"
 * orders.open("ord_164g7p0fvrzk7g6") // 1n
 * ```
 *
 * All of it happens here: no request is sent, and workers have no keys. Text is
 * the form to recommend. It has a prefix, the generation of its key, 13 digits
 * and a check digit. Keys of texts can be replaced: the last generation in the
 * file seals, and a text opens as long as its generation is in the file. A number
 * has no place for a generation, so its key is for ever.
 *
 * A codec belongs to a tag, or to any other name of that form: a table's, for
 * snowflake IDs. Two codecs with other keys, tags, forms or widths can make the
 * same opaque ID of two IDs. So services that share opaque IDs need the same
 * keys; they should log {@link OpaqueIds.fingerprint}.
 *
 * Opaque IDs are no authorization: every number within the width opens to some
 * ID, and so does each 32nd text. Check rights as if the caller had given the ID.
 *
 * The package `messages/opaque` of the Go module states the algorithm.
 */
export class OpaqueIds {
  readonly #masters: readonly Master[] // in the file's order

  private constructor(masters: readonly Master[]) {
    this.#masters = masters
  }

  /**
   * Reads a key file. See {@link OpaqueIds.parse} for its form.
   *
   * @throws {OpaqueIdError} of the fault `keys`
   */
  static async load(path: string | URL): Promise<OpaqueIds> {
    return OpaqueIds.parse(await readFile(path, "latin1")) // comments may be in any encoding
  }

  /**
   * Reads the text of a key file. Each line has a name, spaces or tabs, and a key:
   * 32 bytes in standard, padded base64. The name is `number`, or the generation of
   * a key for texts, a digit of `0123456789abcdefghjkmnpqrstvwxyz`. No name comes
   * twice. The last generation seals. Empty lines and those that begin with # are
   * ignored, and lines may end in CRLF.
   *
   * @throws {OpaqueIdError} of the fault `keys`: it names the line, and shows no key
   */
  static parse(keyFile: string): OpaqueIds {
    const masters: Master[] = []
    for (const [i, line] of keyFile.split("\n").entries()) {
      const [name, key, ...others] = line.split(/[ \t\r]/).filter((field) => field !== "")
      if (name === undefined || name.startsWith("#")) continue
      const bad = (why: string) => new OpaqueIdError("keys", `line ${i + 1}: ${why}`)
      const isName = name === numberName || (name.length === 1 && digits.includes(name))
      if (!isName || key === undefined || others.length > 0) {
        throw bad(`expected number, or a generation of ${digits}, and a key`)
      }
      if (masters.some((master) => master.name === name)) throw bad(`${name} has a key already`)
      const bytes = Buffer.from(key, "base64") // it also takes what no encoder makes
      if (bytes.length !== keyBytes || bytes.toString("base64") !== key) {
        throw bad(`the key of ${name} is not base64 of ${keyBytes} bytes`)
      }
      masters.push(new Master(name, bytes))
    }
    if (masters.length === 0) throw new OpaqueIdError("keys", "no keys")
    return new OpaqueIds(masters)
  }

  /**
   * Returns the codec for numbers of a tag: up to 2^63−1, or up to 2^53−1 for
   * callers whose numbers are doubles. Only the latter are of the type `number`;
   * IDs never are.
   *
   * @param bits 63 or 53
   * @throws {OpaqueIdError} of the fault `bits` or `no_key`
   * @throws {BadTagError}
   */
  numbers(tag: string, bits: 53): OpaqueNumbers<number>
  numbers(tag: string, bits: 63): OpaqueNumbers<bigint>
  numbers(tag: string, bits: 53 | 63): OpaqueNumbers<number> | OpaqueNumbers<bigint> {
    if (bits !== fullBits && bits !== doubleBits) {
      throw new OpaqueIdError("bits", `${show(bits)} bits, allowed are ${fullBits} and ${doubleBits}`)
    }
    checkTag(tag)
    const master = this.#masters.find(({ name }) => name === numberName)
    if (master === undefined) {
      throw new OpaqueIdError("no_key", `the key file has no line ${numberName}`)
    }
    const cipher = master.cipher("number", bits, tag)
    const seal = (id: bigint): bigint => cipher.seal(inRange("ID", id, bits))
    const open = (sealed: bigint): bigint => cipher.open(inRange("sealed number", sealed, bits))
    if (bits === fullBits) return { seal, open }
    return {
      seal: (id) => Number(seal(id)),
      open: (sealed: number) => {
        if (Number.isSafeInteger(sealed) && sealed >= 1) return open(BigInt(sealed))
        throw outOfRange("sealed number", sealed, bits, "number")
      },
    }
  }

  /**
   * Returns the codec for texts of a tag, which begin with a prefix and a further
   * `_`.
   *
   * @param prefix characters of `a-z 0-9 _`, or none
   * @throws {OpaqueIdError} of the fault `prefix` or `no_key`
   * @throws {BadTagError}
   */
  texts(tag: string, prefix: string): OpaqueTexts {
    if (typeof prefix !== "string" || !/^[a-z0-9_]*$/.test(prefix)) {
      throw new OpaqueIdError("prefix", `${show(prefix)}, allowed are a-z 0-9 _`)
    }
    checkTag(tag)
    const generations = this.#masters
      .filter(({ name }) => name !== numberName)
      .map((master) => new Generation(master, tag))
    if (generations.length === 0) throw new OpaqueIdError("no_key", "the key file has no generation")
    return new Texts(`${prefix}_`, generations)
  }

  /**
   * Identifies the keys without showing them, as in
   * `number:af27d53ede339836 1:3d808385ee667c0e`, in the file's order.
   */
  get fingerprint(): string {
    return this.#masters.map((master) => `${master.name}:${master.print}`).join(" ")
  }

  toString(): string {
    return `opaque keys ${this.fingerprint}`
  }
}

class Texts implements OpaqueTexts {
  readonly #prefix: string // with the _
  readonly #generations: readonly Generation[] // in the file's order; the last one seals

  constructor(prefix: string, generations: readonly Generation[]) {
    this.#prefix = prefix
    this.#generations = generations
  }

  seal(id: bigint): string {
    const generation = this.#generations.at(-1)!
    let sealed = generation.cipher.seal(inRange("ID", id, fullBits))
    let number = ""
    for (let i = 0; i < numberLength; i++) {
      number = digits[Number(sealed & 31n)] + number
      sealed >>= 5n
    }
    const text = this.#prefix + generation.digit + number
    return text + generation.checkDigit(text)
  }

  open(text: string): bigint {
    if (typeof text !== "string") {
      throw new OpaqueIdError("prefix", `${show(text)}, allowed is a string that begins with ${this.#prefix}`)
    }
    const lower = text.replace(/[A-Z]/g, (c) => c.toLowerCase()) // no letters beyond ASCII
    const split = lower.lastIndexOf("_") + 1
    if (lower.slice(0, split) !== this.#prefix) {
      throw new OpaqueIdError("prefix", `${quote(text.slice(0, split))}, allowed is ${this.#prefix}`)
    }
    for (let i = split; i < lower.length; i++) {
      if (digits.includes(lower[i]!)) continue
      const bad = plain(text.slice(i), 1)
      throw new OpaqueIdError("alphabet", `'${bad}' at byte ${i}, allowed are ${digits}`)
    }
    const body = lower.slice(split)
    if (body.length !== textLength) {
      throw new OpaqueIdError(
        "length",
        `${body.length} digits after ${this.#prefix}, allowed is ${textLength}`,
      )
    }
    const number = body.slice(1, -1)
    let sealed = 0n
    for (const digit of number) sealed = (sealed << 5n) | BigInt(digits.indexOf(digit))
    if (sealed === 0n || sealed > largest(fullBits)) {
      throw new OpaqueIdError("range", `sealed number ${number}, allowed is 0000000000001 to 7zzzzzzzzzzzz`)
    }
    const generation = this.#generations.find(({ digit }) => digit === body[0])
    if (generation === undefined) {
      throw new OpaqueIdError("generation", `${body[0]} is not in the key file`)
    }
    if (lower.at(-1) !== generation.checkDigit(lower.slice(0, -1))) {
      throw new OpaqueIdError("check", "the text is of another tag or key, or mistyped")
    }
    return generation.cipher.open(sealed)
  }

  toString(): string {
    return `opaque texts of ${this.#prefix}`
  }
}

/** What a generation's key yields for a tag. */
class Generation {
  readonly digit: string
  readonly cipher: Cipher
  readonly #check: Uint8Array

  constructor(master: Master, tag: string) {
    this.digit = master.name
    this.cipher = master.cipher("text", fullBits, tag)
    this.#check = master.derive("check", fullBits, tag)
  }

  /** The check digit of a text that lacks only that: the first 8 bytes of the MAC, mod 32. */
  checkDigit(text: string): string {
    return digits[createHmac("sha256", this.#check).update(text).digest()[7]! & 31]!
  }
}

/** A line of a key file. */
class Master {
  readonly name: string // numberName or a generation
  readonly #key: Uint8Array

  constructor(name: string, key: Uint8Array) {
    this.name = name
    this.#key = key
  }

  get print(): string {
    return Buffer.from(this.#expand("fingerprint", 8)).toString("hex")
  }

  cipher(form: string, bits: number, tag: string): Cipher {
    return new Cipher(this.derive(form, bits, tag), bits)
  }

  /** The key of a codec. */
  derive(form: string, bits: number, tag: string): Uint8Array {
    return this.#expand(`${form} ${bits} ${tag}`, keyBytes)
  }

  /** The bytes that only the master and a purpose yield. */
  #expand(purpose: string, n: number): Uint8Array {
    return new Uint8Array(hkdfSync("sha256", this.#key, "", `idworker opaque v1 ${purpose}`, n))
  }
}

/** A permutation of the numbers from 1 to 2^bits−1. */
class Cipher {
  readonly #bits: number
  readonly #ff1: ReturnType<typeof FF1>

  constructor(key: Uint8Array, bits: number) {
    this.#bits = bits
    this.#ff1 = FF1(2, key)
  }

  seal(id: bigint): bigint {
    return this.#walk("encrypt", id)
  }

  open(sealed: bigint): bigint {
    return this.#walk("decrypt", sealed)
  }

  /** 0 is no ID: where the cipher yields it, it is turned once more. */
  #walk(way: "encrypt" | "decrypt", n: bigint): bigint {
    const bits = Array.from(n.toString(2).padStart(this.#bits, "0"), Number)
    const turned = BigInt(`0b${this.#ff1[way](bits).join("")}`)
    return turned === 0n ? this.#walk(way, 0n) : turned
  }
}

function largest(bits: number): bigint {
  return 2n ** BigInt(bits) - 1n
}

/** Returns a number that fits into the width. */
function inRange(what: string, n: bigint, bits: number): bigint {
  if (typeof n === "bigint" && n >= 1n && n <= largest(bits)) return n
  throw outOfRange(what, n, bits, "bigint")
}

function outOfRange(what: string, n: bigint | number, bits: number, type: string): OpaqueIdError {
  return new OpaqueIdError("range", `${what} ${show(n)}, allowed is a ${type} from 1 to 2^${bits}-1`)
}
