import * as errors from "../src/errors.js"

/** The type of a field of an operation. A question mark means that it may be absent. */
type FieldType = "string" | "number" | "boolean" | "object" | "any"
type Schema = Record<string, FieldType | `${FieldType}?`>

type ValueOf<T> = T extends `string${string}`
  ? string
  : T extends `number${string}`
    ? number
    : T extends `boolean${string}`
      ? boolean
      : unknown

/** The fields of an operation with such a schema. */
export type Fields<S extends Schema> = {
  [K in keyof S]: S[K] extends `${string}?` ? ValueOf<S[K]> | undefined : ValueOf<S[K]>
}

/** Performs an operation, and returns its result; undefined is one without fields. */
export type Operation = (fields: Record<string, unknown>, signal: AbortSignal) => unknown
export type Operations = Record<string, Operation>

/** An operation with such fields. A field of any other name, or of another type, is an error. */
export function on<const S extends Schema>(
  schema: S,
  perform: (fields: Fields<S>, signal: AbortSignal) => unknown,
): Operation {
  return (fields, signal) => {
    for (const name of Object.keys(fields)) {
      if (!(name in schema)) throw new DriverError(`unknown field ${name}`)
    }
    for (const [name, type] of Object.entries(schema)) {
      const value = fields[name]
      const isAbsent = value === undefined && type.endsWith("?")
      const wanted = type.replace("?", "")
      if (!isAbsent && wanted !== "any" && typeof value !== wanted) {
        throw new DriverError(`the field ${name} is ${JSON.stringify(value)}, want a ${wanted}`)
      }
    }
    return perform(fields as Fields<S>, signal)
  }
}

/** An error of a kind that none of the client's errors has, by default that of the driver itself. */
export class DriverError extends Error {
  readonly kind: string

  constructor(message: string, kind = "driver", cause?: unknown) {
    super(message, { cause })
    this.kind = kind
  }
}

/** The kinds of errors. A class comes after its subclasses. */
const kinds = [
  [errors.BadPrefixError, "prefix"],
  [errors.BadTagError, "tag"],
  [errors.BadCountError, "count"],
  [errors.BadConfigError, "config"],
  [errors.MalformedRequestError, "malformed"],
  [errors.NoSuchTagError, "no_tag"],
  [errors.StrictTagError, "strict"],
  [errors.ExhaustedError, "exhausted"],
  [errors.BusyError, "busy"],
  [errors.UnavailableError, "unavailable"],
  [errors.ErrorReplyError, "code"],
  [errors.BadReplyError, "bad_reply"],
  [errors.PermissionDeniedError, "denied"],
  [errors.ConnectionEndedError, "connection"],
  [errors.ClosedError, "closed"],
  [errors.CallTimeoutError, "timeout"],
  [errors.CancelledError, "cancelled"],
  [errors.BufferEmptyError, "empty"],
] as const

/** The kind of an error; all that is none of the client's is the driver's. */
export function kindOf(error: unknown): string {
  if (error instanceof DriverError) return error.kind
  return kinds.find(([type]) => error instanceof type)?.[1] ?? "driver"
}

/** Options without those that are absent, as an interface of the client wants them. */
export function present<T>(options: { [K in keyof Required<T>]: T[K] | undefined }): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<T>
}
