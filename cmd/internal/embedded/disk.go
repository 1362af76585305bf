package embedded

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/problem"
)

// ErrUnwritten means that a write to the data folder failed, as on a full disk. The server writes
// no more to that stream until it is started again, even if there is room by then.
var ErrUnwritten = problem.New(problem.FolderUnwritten, "the NATS server could not write to its data folder; make room before a restart, which loses the IDs in memory")

// Trouble returns the first write that [Server.Guard] saw fail, as an [ErrUnwritten], or nil.
func (s *Server) Trouble() error {
	if err := s.unwritten.Load(); err != nil {
		return *err
	}
	return nil
}

// checkWrites returns [Server.Trouble] once the folder can be written to again. Until then the
// process is worth more alive, for what it has in memory.
func (s *Server) checkWrites() error {
	if s.Trouble() == nil {
		for _, e := range s.nats.Healthz(&server.HealthzOptions{Details: true}).Errors {
			if e.Type == server.HealthzErrorJetStream || strings.Contains(e.Error, "write error") {
				err := fmt.Errorf("%w: %s: %s", ErrUnwritten, s.Folder(), e.Error)
				s.unwritten.Store(&err)
				s.cfg.Log.Error("disk full or failing; serving from memory until it can be written to", zap.Error(err))
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
	noise := make([]byte, 1<<20) // a file system may store zeros without room
	_, _ = rand.Read(noise)      // never fails
	path := filepath.Join(d.path, roomFile)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(noise)
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(path)) // a full disk needs the room
}
