package embedded

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

// ErrUnwritten means that a write to the data folder failed, as on a full disk.
// The server does not write to that stream again until it restarts, even if
// there is space.
var ErrUnwritten = errors.New("the NATS server cannot write to its data folder until serve starts again, which discards buffered IDs")

// Trouble returns the first failed write that [NATS.Guard] detected, as an
// [ErrUnwritten], or nil.
func (s *NATS) Trouble() error {
	if err := s.unwritten.Load(); err != nil {
		return *err
	}
	return nil
}

// checkWrites returns [NATS.Trouble] once the folder is writable again. Until
// then the process serves its buffers.
func (s *NATS) checkWrites() error {
	if s.Trouble() == nil {
		for _, e := range s.nats.Healthz(&server.HealthzOptions{Details: true}).Errors {
			if e.Type == server.HealthzErrorJetStream || strings.Contains(e.Error, "write error") {
				// The server's text may be about a consequence.
				cause := cmp.Or(s.data.tryWrite(), errors.New(e.Error))
				err := fmt.Errorf("%w: %s: %w", ErrUnwritten, s.Folder(), cause)
				s.unwritten.Store(&err)
				s.cfg.Log.Error("disk write failed; serving from buffers", zap.Error(err))
				break
			}
		}
	}
	if s.Trouble() != nil && s.data.tryWrite() == nil {
		return s.Trouble()
	}
	return nil
}

const roomFile = "idworker.room"

// tryWrite writes a file of 1 MiB to the folder, and removes it.
func (d *data) tryWrite() error {
	noise := make([]byte, 1<<20) // file systems may store zeros without space
	_, _ = rand.Read(noise)      // never fails
	path := filepath.Join(d.path, roomFile)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(noise)
	// Removed even after an error: a full disk needs the space.
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(path))
}
