package lease

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
)

// freshNumber returns the random number of a write, as text. A copy of this process must
// not draw the same one. So half of it is read from the kernel's device: crypto/rand may
// take its bytes from memory that was copied along with the process (the vDSO of Linux).
func freshNumber() string {
	var number [16]byte
	_, _ = rand.Read(number[:]) // never fails
	if device, err := os.Open("/dev/urandom"); err == nil {
		_, _ = io.ReadFull(device, number[:8]) // not everywhere; then crypto/rand's bytes stay
		_ = device.Close()
	}
	return hex.EncodeToString(number[:])
}
