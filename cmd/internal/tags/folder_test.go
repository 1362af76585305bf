package tags_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
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
	"github.com/idworker/idworker/testing/tier"
)

const prefix = messages.DefaultPrefix

// ledgerFolder is the data folder of an embedded server whose segments come from a database.
type ledgerFolder struct {
	cfg    embedded.Config
	source backend.Backend
}

func newLedgerFolder(t *testing.T) ledgerFolder {
	t.Helper()
	tier.All(t)
	t.Parallel()
	db := dbtest.Postgres(t)
	db.Exec(t, "CREATE TABLE leaf_alloc (biz_tag VARCHAR(128) NOT NULL PRIMARY KEY, max_id BIGINT NOT NULL DEFAULT 1, step INT NOT NULL, description VARCHAR(256), update_time TIMESTAMP NOT NULL DEFAULT now())",
		"INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 50)")
	source, err := backend.Parse(db.DSN(), "leaf_alloc")
	must(t, err)
	return ledgerFolder{
		embedded.Config{Host: "127.0.0.1", Port: server.RANDOM_PORT, Folder: filepath.Join(t.TempDir(), "data"), Log: zap.NewNop(), Counter: backend.Counter},
		source,
	}
}

// run runs the server on the folder, unless it refuses.
func (f ledgerFolder) run(t *testing.T, do func(*embedded.Server, jetstream.JetStream)) error {
	t.Helper()
	s, err := embedded.Start(t.Context(), f.cfg)
	if err != nil {
		return err
	}
	defer s.Stop()
	conn, js, err := s.Connect()
	must(t, err)
	defer conn.Close()
	do(s, js)
	return nil
}

// grant reserves n segments of 50 of the tag order, as a loader does, and returns the last.
func (f ledgerFolder) grant(t *testing.T, js jetstream.JetStream, n int) (last store.Segment) {
	t.Helper()
	st, err := f.source.Open(t.Context(), js, prefix)
	must(t, err)
	defer func() { must(t, st.Close()) }()
	_, err = st.Remembering.(*ledger.Store).Fill(t.Context())
	must(t, err)
	must(t, st.CheckLedger(t.Context()))
	for range n {
		last, err = st.Reserve(t.Context(), "order", 50)
		must(t, err)
	}
	return last
}

// use grants the IDs up to 150, and lets the witness see that.
func (f ledgerFolder) use(t *testing.T) {
	t.Helper()
	must(t, f.run(t, func(_ *embedded.Server, js jetstream.JetStream) {
		must(t, resource.Ensure(t.Context(), js, agreement.Bucket(prefix, 1)))
		must(t, f.source.Create(t.Context(), js, prefix, 1))
		f.grant(t, js, 3)
	}))
	must(t, f.run(t, func(s *embedded.Server, _ jetstream.JetStream) {
		must(t, s.Witness(t.Context(), tags.Witnessed(prefix, f.source)[:1]))
	})) // ids_config
	must(t, f.run(t, func(s *embedded.Server, _ jetstream.JetStream) {
		must(t, s.Witness(t.Context(), tags.Witnessed(prefix, f.source)[2:]))
	})) // ids_ledger
}

// isRaised makes sure that the folder is refused, and that the command which the refusal names
// leads out, above what was granted.
func (f ledgerFolder) isRaised(t *testing.T) {
	t.Helper()
	if err := f.run(t, func(*embedded.Server, jetstream.JetStream) {}); err == nil {
		t.Fatal("served")
	}
	for range 2 {
		_, err := tags.RaiseFolder(t.Context(), f.cfg, prefix, f.source, 1000, func(store.Tag) {})
		must(t, err)
	}
	must(t, f.run(t, func(_ *embedded.Server, js jetstream.JetStream) {
		if segment := f.grant(t, js, 1); segment.First < 2151 {
			t.Errorf("%v is granted, want 2151 or above", segment)
		}
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFolderFromBeforeTheLedger: the folder is put back to a state without the ledger.
func TestFolderFromBeforeTheLedger(t *testing.T) {
	f := newLedgerFolder(t)
	must(t, f.run(t, func(_ *embedded.Server, js jetstream.JetStream) {
		must(t, resource.Ensure(t.Context(), js, agreement.Bucket(prefix, 1)))
	}))
	backup := filepath.Join(t.TempDir(), "backup")
	must(t, os.CopyFS(backup, os.DirFS(f.cfg.Folder)))
	f.use(t)
	must(t, os.RemoveAll(f.cfg.Folder))
	must(t, os.CopyFS(f.cfg.Folder, os.DirFS(backup)))
	f.isRaised(t)
}

// TestFolderWithoutItsLedger: the ledger is lost, and all else is there, which says that it was
// complete.
func TestFolderWithoutItsLedger(t *testing.T) {
	f := newLedgerFolder(t)
	f.use(t)
	must(t, f.run(t, func(_ *embedded.Server, js jetstream.JetStream) {
		must(t, js.DeleteKeyValue(t.Context(), ledger.BucketName(prefix)))
	}))
	f.isRaised(t)
}
