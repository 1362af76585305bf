package dbtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Local is a server of the test's own that runs on this machine, so that its
// data folder can be put back to an older state.
type Local struct {
	*Server
	here *fromBinary
}

// StartLocalMySQL runs MariaDB or MySQL from the machine's binary.
func StartLocalMySQL(t testing.TB) *Local {
	t.Helper()
	return mysqlKind.local(t)
}

// StartLocalPostgres runs PostgreSQL from the machine's binary.
func StartLocalPostgres(t testing.TB) *Local {
	t.Helper()
	return postgresKind.local(t)
}

func (k *kind) local(t testing.TB) *Local {
	t.Helper()
	s := k.folder(t)
	if err := s.setUp(); err != nil {
		t.Fatalf("%s: %v", s.program, err)
	}
	s.describe(t)
	return &Local{&Server{DB: k.create(t, s.at), t: t, server: s}, s}
}

// folder makes the folder for a server from the machine's binary, which is
// removed with the server when the test ends.
func (k *kind) folder(t testing.TB) *fromBinary {
	t.Helper()
	program := k.need.Require(t)
	s, err := newFromBinary(k, program)
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	t.Cleanup(s.Remove)
	return s
}

// describe logs which server runs.
func (s *fromBinary) describe(t testing.TB) {
	t.Helper()
	from, err := s.kind.describe(s.program, s.at)
	if err != nil {
		t.Fatalf("%s: %v", s.program, err)
	}
	t.Logf("server: %s", from)
}

// SaveData copies the data folder of a server that was killed.
func (l *Local) SaveData() {
	l.t.Helper()
	l.must("save the data of", replaceFolder(l.here.data(), l.here.saved()))
}

// RestoreData puts the data folder of a killed server back to the copy of
// SaveData.
func (l *Local) RestoreData() {
	l.t.Helper()
	l.must("restore the data of", replaceFolder(l.here.saved(), l.here.data()))
}

func (s *fromBinary) data() string  { return filepath.Join(s.dir, "data") }
func (s *fromBinary) saved() string { return filepath.Join(s.dir, "saved") }

// replaceFolder makes a folder a copy of another, with the same owners.
func replaceFolder(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if out, err := exec.Command(helper("cp"), "-pR", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w\n%s", err, out)
	}
	return nil
}
