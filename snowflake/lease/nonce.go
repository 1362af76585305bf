package lease

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
)

// newNonce returns a random number of 128 bits, as text, by which a process
// recognizes its own writes. A copy of this process, such as a resumed
// snapshot, must not draw the same number. So half of it comes from the
// kernel's device: crypto/rand may take its bytes from memory that was copied
// along with the process (the vDSO of Linux).
func newNonce() string {
	var number [16]byte
	_, _ = rand.Read(number[:]) // never fails
	if device, err := os.Open("/dev/urandom"); err == nil {
		// Not everywhere; then crypto/rand's bytes stay.
		_, _ = io.ReadFull(device, number[:8])
		_ = device.Close()
	}
	return hex.EncodeToString(number[:])
}
