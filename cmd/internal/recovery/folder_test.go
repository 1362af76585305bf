package recovery

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/testing/tier"
)

// dataFolder is the data folder of an embedded server.
type dataFolder struct {
	cfg    embedded.Config
	source backend.Backend
}

// run runs the server on the folder, unless it refuses.
func (f dataFolder) run(t *testing.T, do func(*embedded.NATS, jetstream.JetStream)) error {
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

// raise raises all tags of the stopped server, as the command does.
func (f dataFolder) raise(t *testing.T, w Wish) error {
	t.Helper()
	on, err := OpenFolder(t.Context(), f.cfg, false, prefix, f.source)
	if err != nil {
		return err
	}
	i := &installation{T: t, Site: on, writer: on}
	_, err = i.do(w)
	return errors.Join(err, on.Close())
}

// grant reserves n segments of 50 of the tag order, as a loader does, and
// returns the last.
func (f dataFolder) grant(t *testing.T, n int) (last storetest.Part) {
	t.Helper()
	must(t, f.run(t, func(s *embedded.NATS, js jetstream.JetStream) {
		must(t, register.Create(t.Context(), js, prefix, 1))
		st, err := f.source.Open(t.Context(), register.Config{JetStream: js, Prefix: prefix, Witness: s.Witness()})
		must(t, err)
		defer func() { must(t, st.Close()) }()
		for range n {
			last, err = storetest.Reserve(t.Context(), st, "order", 50)
			must(t, err)
		}
	}))
	return last
}

// TestFolderBesideDatabase: a folder whose register was lost, or is an older
// copy, is refused although the database is whole. The command in the hint
// repairs it, above all grants.
func TestFolderBesideDatabase(t *testing.T) {
	tier.All(t)
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, f dataFolder, backup string){
		"put back": func(t *testing.T, f dataFolder, backup string) {
			must(t, os.RemoveAll(f.cfg.Folder))
			must(t, os.CopyFS(f.cfg.Folder, os.DirFS(backup)))
		},
		"deleted": func(t *testing.T, f dataFolder, _ string) {
			must(t, f.run(t, func(_ *embedded.NATS, js jetstream.JetStream) {
				must(t, js.DeleteKeyValue(t.Context(), register.BucketName(prefix)))
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.Postgres(t)
			db.Exec(t, "CREATE TABLE leaf_alloc (biz_tag VARCHAR(128) NOT NULL PRIMARY KEY, max_id BIGINT NOT NULL DEFAULT 1, step INT NOT NULL)",
				"INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 50)")
			source, err := backend.Parse(db.DSN(), "leaf_alloc")
			must(t, err)
			f := dataFolder{folderIn(t), source}
			must(t, f.run(t, func(*embedded.NATS, jetstream.JetStream) {}))
			backup := filepath.Join(t.TempDir(), "backup")
			must(t, os.CopyFS(backup, os.DirFS(f.cfg.Folder)))
			f.grant(t, 3)
			lose(t, f, backup)
			if err := f.run(t, func(*embedded.NATS, jetstream.JetStream) {}); err == nil {
				t.Fatal("served")
			}
			for range 2 {
				must(t, f.raise(t, Wish{By: 1000}))
			}
			if segment := f.grant(t, 1); segment.First < 2151 {
				t.Errorf("%v is granted, want 2151 or above", segment)
			}
		})
	}
}

// TestStreamThatIsNoRegister: a foreign stream in a folder without a register
// is not taken for the register of another prefix.
func TestStreamThatIsNoRegister(t *testing.T) {
	t.Parallel()
	f := dataFolder{folderIn(t), jetStream(t)}
	must(t, f.run(t, func(_ *embedded.NATS, js jetstream.JetStream) {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "customer_register", Subjects: []string{"customers"}})
		must(t, err)
	}))
	must(t, f.raise(t, Wish{By: 1000}))
}
