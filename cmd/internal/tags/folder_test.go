package tags_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/testing/dbtest"
)

// TestFolderFromBeforeTheLedger: an embedded server's segments come from a database, and its data
// folder is put back to a state without the ledger. The command that the refusal names leads out.
func TestFolderFromBeforeTheLedger(t *testing.T) {
	const prefix = messages.DefaultPrefix
	db := dbtest.Postgres(t)
	db.Exec(t, "CREATE TABLE leaf_alloc (biz_tag VARCHAR(128) NOT NULL PRIMARY KEY, max_id BIGINT NOT NULL DEFAULT 1, step INT NOT NULL, description VARCHAR(256), update_time TIMESTAMP NOT NULL DEFAULT now())",
		"INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 50)")
	source, err := backend.Parse(db.DSN(), "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "data")
	cfg := embedded.Config{Host: "127.0.0.1", Port: server.RANDOM_PORT, Folder: folder, Log: zap.NewNop(), Counter: backend.Counter}
	run := func(do func(s *embedded.Server)) error {
		s, err := embedded.Start(t.Context(), cfg)
		if err != nil {
			return err
		}
		defer s.Stop()
		do(s)
		return nil
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(run(func(s *embedded.Server) {
		conn, js, err := s.Connect()
		must(err)
		defer conn.Close()
		must(resource.Ensure(t.Context(), js, agreement.Bucket(prefix, 1)))
	}))
	backup := filepath.Join(t.TempDir(), "backup")
	must(os.CopyFS(backup, os.DirFS(folder)))
	must(run(func(s *embedded.Server) {
		conn, js, err := s.Connect()
		must(err)
		defer conn.Close()
		must(s.Witness(t.Context(), tags.Witnessed(prefix, source)[:1])) // ids_config
		must(source.Create(t.Context(), js, prefix, 1))
		st, err := source.Open(t.Context(), js, prefix)
		must(err)
		defer func() { must(st.Close()) }()
		_, err = st.Remembering.(*ledger.Store).Fill(t.Context())
		must(err)
		for range 3 {
			_, err = st.Reserve(t.Context(), "order", 50)
			must(err)
		}
	}))
	must(run(func(s *embedded.Server) { must(s.Witness(t.Context(), tags.Witnessed(prefix, source)[2:])) })) // ids_ledger
	must(os.RemoveAll(folder))
	must(os.CopyFS(folder, os.DirFS(backup)))
	if err := run(func(*embedded.Server) {}); err == nil {
		t.Fatal("served")
	}
	for range 2 {
		if _, err := tags.RaiseFolder(t.Context(), cfg, prefix, source, 1000, func(store.Tag) {}); err != nil {
			t.Fatal(err)
		}
	}
	must(run(func(*embedded.Server) {}))
}
