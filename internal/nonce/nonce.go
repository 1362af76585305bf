// Package nonce makes the random numbers by which a process knows its own writes.
package nonce

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
)

// New returns a random number of 128 bits, as text. A copy of this process, as a snapshot that is
// resumed is one, must not draw the same one. So half of it is read from the kernel's device: crypto/rand
// may take its bytes from memory that was copied along with the process (the vDSO of Linux).
func New() string {
	var number [16]byte
	_, _ = rand.Read(number[:]) // never fails
	if device, err := os.Open("/dev/urandom"); err == nil {
		_, _ = io.ReadFull(device, number[:8]) // not everywhere; then crypto/rand's bytes stay
		_ = device.Close()
	}
	return hex.EncodeToString(number[:])
}
