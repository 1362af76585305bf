package backend_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/secretfile"
)

// TestFile: each connection to the database uses the DSN that the file has then,
// but never another database. No log line shows the DSN.
func TestFile(t *testing.T) {
	t.Parallel()
	var dialed [2]atomic.Int64
	var addresses [2]string
	for i := range dialed {
		addresses[i] = listen(t, &dialed[i])
	}
	path := filepath.Join(t.TempDir(), "dsn")
	replace := func(dsn string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(dsn+"\n"), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	dsn := func(server int, database string) string {
		return fmt.Sprintf("mysql://u:%s@tcp(%s)/%s", canary, addresses[server], database)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	replace(dsn(0, "shop"))
	b, err := backend.ParseFile(&secretfile.Set{Log: zap.New(core)}, path, table)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Open(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		dsn    string
		server int
		logs   string
	}{
		{dsn(0, "shop"), 0, ""},
		{dsn(1, "shop"), 1, "reloaded"},
		{dsn(0, "other"), 1, "another store, mysql other.leaf_alloc instead of mysql shop.leaf_alloc"},
		{strings.Replace(dsn(0, "shop"), "mysql:", "postgres:", 1), 1, ""},
		{"jetstream", 1, "another store, jetstream instead of mysql shop.leaf_alloc"},
		{"", 1, "expected jetstream, mysql"},
		{dsn(0, "shop"), 0, "reloaded"},
	} {
		replace(step.dsn)
		before := [2]int64{dialed[0].Load(), dialed[1].Load()}
		if err := s.Database.Check(t.Context()); err == nil {
			t.Fatalf("step %d: the listener is no database", i)
		}
		if dialed[step.server].Load() == before[step.server] || dialed[1-step.server].Load() != before[1-step.server] {
			t.Errorf("step %d: connects to another server than %d", i, step.server)
		}
		logged := fmt.Sprint(logs.TakeAll())
		if !strings.Contains(logged, step.logs) || strings.Contains(logged, canary) {
			t.Errorf("step %d: logged %s", i, logged)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := backend.ParseFile(new(secretfile.Set), path+"x", table); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// listen closes and counts connections at an address.
func listen(t *testing.T, dialed *atomic.Int64) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			dialed.Add(1)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}
