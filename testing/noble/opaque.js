// Opaque IDs, written from the contract in messages/opaque/doc.go alone, with
// another implementation of FF1. It reads cases from stdin, a JSON array. A case
// with an ID becomes its opaque ID, and a case with an opaque ID its ID.
import { FF1 } from '@noble/ciphers/ff1.js'
import { createHmac, hkdfSync } from 'node:crypto'
import { json } from 'node:stream/consumers'

const digits = '0123456789abcdefghjkmnpqrstvwxyz'

const derive = (c, form) =>
  new Uint8Array(hkdfSync('sha256', Buffer.from(c.master, 'base64'), '', `idworker opaque v1 ${form} ${c.bits} ${c.tag}`, 32))

// walk encrypts or decrypts once, and once more if that yields 0.
function walk(c, step, n) {
  const ff1 = FF1(2, derive(c, c.form))
  do {
    const bits = Array.from(n.toString(2).padStart(c.bits, '0'), Number)
    n = BigInt('0b' + ff1[step](bits).join(''))
  } while (n === 0n)
  return n
}

function seal(c) {
  let n = walk(c, 'encrypt', BigInt(c.id))
  if (c.form === 'number') return String(n)
  let number = ''
  for (let i = 0; i < 13; i++, n /= 32n) number = digits[n % 32n] + number
  const text = `${c.prefix}_${c.generation}${number}`
  const mac = createHmac('sha256', derive(c, 'check')).update(text).digest()
  return text + digits[mac.readBigUInt64BE() % 32n]
}

function open(c) {
  if (c.form === 'number') return String(walk(c, 'decrypt', BigInt(c.sealed)))
  const number = Array.from(c.sealed.slice(-14, -1))
  return String(walk(c, 'decrypt', number.reduce((n, digit) => n * 32n + BigInt(digits.indexOf(digit)), 0n)))
}

const cases = await json(process.stdin)
process.stdout.write(JSON.stringify(cases.map(c => c.id ? seal(c) : open(c))))
