package opaque

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"sync"
)

// permutation is FF1 (NIST SP 800-38G, algorithms 7 and 8) of the numbers below
// 2^bits: AES-256, radix 2, an empty tweak.
//
// Libraries take digits of any radix, compute with big integers, and cost
// microseconds. With two halves of at most 32 bits, a round is a block of AES
// and an addition.
type permutation struct {
	aes         cipher.Block
	prefix      [aes.BlockSize]byte // the block P of the standard, encrypted
	left, right int                 // bits of the halves A and B
}

// rounds is the number of rounds of FF1.
const rounds = 10

// newPermutation needs a key of 32 bytes, and 34 to 64 bits. With these, Q of
// the standard is one block, and S the first 8 bytes of R.
func newPermutation(key []byte, bits int) *permutation {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has another length
	}
	p := &permutation{aes: block, left: bits / 2, right: bits - bits/2}
	// Version 1, method 2, addition 1; radix 2; rounds; the left half's and the
	// whole length; the tweak's length, 0.
	start := [aes.BlockSize]byte{1, 2, 1, 0, 0, 2, rounds, byte(p.left), 0, 0, 0, byte(bits)}
	block.Encrypt(p.prefix[:], start[:])
	return p
}

// encrypt returns the number that x becomes.
func (p *permutation) encrypt(x uint64) uint64 {
	block := blocks.Get().(*[aes.BlockSize]byte)
	defer blocks.Put(block)
	a, b := x>>p.right, x&mask(p.right)
	for round := 0; round < rounds; round += 2 {
		a = (a + p.mix(block, round, b)) & mask(p.left)
		b = (b + p.mix(block, round+1, a)) & mask(p.right)
	}
	return a<<p.right | b
}

// decrypt reverses encrypt.
func (p *permutation) decrypt(x uint64) uint64 {
	block := blocks.Get().(*[aes.BlockSize]byte)
	defer blocks.Put(block)
	a, b := x>>p.right, x&mask(p.right)
	for round := rounds - 2; round >= 0; round -= 2 {
		b = (b - p.mix(block, round+1, a)) & mask(p.right)
		a = (a - p.mix(block, round, b)) & mask(p.left)
	}
	return a<<p.right | b
}

// blocks are buffers, which escape because AES is behind an interface.
var blocks = sync.Pool{New: func() any { return new([aes.BlockSize]byte) }}

// mix is the number y of a round: the CBC-MAC of P and Q, where Q has the round
// and a half in its last 5 bytes.
func (p *permutation) mix(block *[aes.BlockSize]byte, round int, half uint64) uint64 {
	*block = p.prefix
	block[11] ^= byte(round)
	binary.BigEndian.PutUint32(block[12:], binary.BigEndian.Uint32(block[12:])^uint32(half))
	p.aes.Encrypt(block[:], block[:])
	return binary.BigEndian.Uint64(block[:])
}

func mask(bits int) uint64 { return 1<<bits - 1 }
