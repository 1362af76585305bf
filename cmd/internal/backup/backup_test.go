package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/backup"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const prefix = messages.DefaultPrefix

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// installation counts in JetStream, without workers.
type installation struct {
	*testing.T
	js     jetstream.JetStream
	source backend.Backend
	id     string
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source, err := backend.Parse("jetstream", "")
	must(t, err)
	i := &installation{T: t, js: js, source: source}
	must(t, register.Create(t.Context(), js, prefix, 1))
	agreed, err := agreement.Open(t.Context(), js, prefix)
	must(t, err)
	i.id, _, err = agreed.Installation(t.Context())
	must(t, err)
	must(t, agreed.ClaimStore(t.Context(), source.Name()))
	i.add("chat.* 10 strict 1000 50 7001\nchat.1 10 11\nchat.hot 500 21 strict\norder 1000 5 strict\nplain 1000 6\ngone removed 78 strict\n")
	i.record("orders", "first")
	return i
}

// tags opens the tags, as a command does.
func (i *installation) tags() *tags.Tags {
	i.Helper()
	all, err := tags.Open(i.Context(), i.js, prefix, i.source)
	must(i.T, err)
	i.Cleanup(all.Close)
	return all
}

// add imports a list.
func (i *installation) add(list string) {
	i.Helper()
	all, err := tags.Parse(strings.NewReader(list))
	must(i.T, err)
	must(i.T, i.tags().Import(i.Context(), all, func(tags.Change) {}))
}

// record writes the record of an enrichment.
func (i *installation) record(key, value string) {
	i.Helper()
	must(i.T, kv.Ensure(i.Context(), i.js, enrich.Bucket(prefix, 1)))
	bucket, err := i.js.KeyValue(i.Context(), enrich.BucketName(prefix))
	must(i.T, err)
	_, err = bucket.PutString(i.Context(), key, value)
	must(i.T, err)
}

func (i *installation) lose(buckets ...string) {
	i.Helper()
	for _, bucket := range buckets {
		must(i.T, i.js.DeleteStream(i.Context(), kv.StreamName(bucket)))
	}
}

// backup takes a backup, and returns its folder.
func (i *installation) backup() string {
	i.Helper()
	taken, err := backup.Take(i.Context(), i.js, prefix, i.source, "test")
	must(i.T, err)
	folder := filepath.Join(i.TempDir(), "backup")
	must(i.T, taken.Write(folder))
	return folder
}

// restore restores a backup from a folder.
func (i *installation) restore(from string, change ...func(*backup.Restoring)) error {
	i.Helper()
	b, err := backup.Read(from)
	must(i.T, err)
	r := backup.Restoring{
		Backup:    b,
		Confirm:   func(backup.RestorePlan) error { return nil },
		Report:    func(tags.Change) {},
		Resources: func(int) []kv.Resource { return nil },
	}
	for _, c := range change {
		c(&r)
	}
	_, err = r.Restore(i.Context(), i.js, prefix, i.source)
	return err
}

// streams describes all streams, with their settings and sequences.
func (i *installation) streams() map[string]string {
	i.Helper()
	all := make(map[string]string)
	list := i.js.ListStreams(i.Context())
	for info := range list.Info() {
		s := info.State
		all[info.Config.Name] = fmt.Sprintf("%v %+v: %d messages, %d bytes, sequences %d to %d", info.Created, info.Config, s.Msgs, s.Bytes, s.FirstSeq, s.LastSeq)
	}
	must(i.T, list.Err())
	return all
}

// untouched fails the test if f writes anything.
func (i *installation) untouched(f func()) {
	i.Helper()
	before := i.streams()
	f()
	after := i.streams()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			i.Errorf("stream %s is\n%s, was\n%s", name, after[name], before[name])
		}
	}
	if len(after) < len(before) {
		i.Errorf("streams: %d, were %d", len(after), len(before))
	}
}

// export returns the list of tags and templates, with the next IDs of tags
// replaced by whether they are at or above the target.
func (i *installation) export(target int64) string {
	i.Helper()
	list, err := i.tags().Export(i.Context())
	must(i.T, err)
	list.Floor = 0
	for n := range list.Tags {
		if list.Tags[n].Next >= target {
			list.Tags[n].Next = 2
		} else {
			i.Errorf("tag %s is below %d", list.Tags[n].Name, target)
		}
	}
	for n := range list.Templates {
		list.Templates[n].First = 0
	}
	var text strings.Builder
	must(i.T, list.Text(&text))
	return text.String()
}

// TestRestoreReturnsAll: whatever was lost, a restore brings back all tags with
// their orders, removed tags as removed, templates, settings and records, and
// raises everything. Where nothing is missing, it changes nothing else. A register
// that it makes is never without the mark that keeps loaders from granting.
func TestRestoreReturnsAll(t *testing.T) {
	t.Parallel()
	config, enrichments := agreement.BucketName(prefix), enrich.BucketName(prefix)
	all := []string{register.BucketName(prefix), config, enrichments}
	for name, lose := range map[string][]string{
		"nothing": nil, "the register": all[:1], "settings": {config}, "all": all,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t)
			from := i.backup()
			b, err := backup.Read(from)
			must(t, err)
			want := i.export(0)
			i.lose(lose...)
			target := b.Taken.UnixMicro()
			began := time.Now()
			mark := make(chan string, 1)
			go func() { mark <- i.firstMark() }()
			must(t, i.restore(from))
			if slices.Contains(lose, all[0]) && <-mark == "" {
				t.Error("the register was made without a mark")
			}
			if got := i.export(target); got != want {
				t.Errorf("the tags are\n%s, want\n%s", got, want)
			}
			for key, value := range b.Config {
				here, found, err := agreement.Lookup(t.Context(), i.js, prefix, key)
				must(t, err)
				if raised := key == templates.Key || key == agreement.FloorKey; !found || here != value && !raised {
					t.Errorf("setting %s is %q, want %q", key, here, value)
				}
			}
			if slices.Contains(lose, config) && !i.entry(templates.Key).Created.After(began.Add(wait)) {
				t.Error("the templates are back while loaders may grant")
			}
			record, err := kv.Get(t.Context(), i.js, enrichments, "orders")
			if err != nil || string(record.Value) != "first" {
				t.Errorf("the record is %q, %v", record.Value, err)
			}
		})
	}
}

// firstMark returns the mark that the register has when it is there again.
func (i *installation) firstMark() string {
	for i.Context().Err() == nil {
		if stream, err := i.js.Stream(i.Context(), kv.StreamName(register.BucketName(prefix))); err == nil {
			return stream.CachedInfo().Config.Metadata["idworker_raising"]
		}
	}
	return ""
}

// wait is less than the time between the mark of a restore and its writes, for
// which loaders may grant.
const wait = 4 * time.Second

// entry reads a setting.
func (i *installation) entry(key string) kv.Entry {
	i.Helper()
	e, err := kv.Get(i.Context(), i.js, agreement.BucketName(prefix), key)
	must(i.T, err)
	return e
}

// TestRecordsStay: a record of an enrichment that went on, or was deleted, stays
// as it is: its events may be in flight.
func TestRecordsStay(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.record("gone", "first")
	from := i.backup()
	i.record("orders", "second")
	bucket, err := i.js.KeyValue(t.Context(), enrich.BucketName(prefix))
	must(t, err)
	must(t, bucket.Delete(t.Context(), "gone"))
	must(t, i.restore(from))
	if e, err := bucket.Get(t.Context(), "orders"); err != nil || string(e.Value()) != "second" {
		t.Errorf("a record that went on: %v, %v", e, err)
	}
	if e, err := bucket.Get(t.Context(), "gone"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("a deleted record: %v, %v", e, err)
	}
}

// errNo answers no to the question whether to restore.
var errNo = errors.New("no")

// TestNothingBeforeTheAnswer: until the restore is confirmed, it writes nothing.
// Its plan shows whether anything is missing.
func TestNothingBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*installation)
		nothing bool
	}{
		"nothing changed":         {func(*installation) {}, true},
		"more tags and templates": {func(i *installation) { i.add("day.> 20 trend 0 0 1\nnew 10 1\n") }, true},
		"raised": {func(i *installation) {
			_, err := tags.RaiseAll(i.Context(), i.js, prefix, i.source, tags.Raising{Report: func(tags.Change) {}})
			must(i.T, err)
		}, true},
		"a tag removed":  {func(i *installation) { must(i.T, i.tags().Remove(i.Context(), "plain")) }, true},
		"a record later": {func(i *installation) { i.record("orders", "second") }, true},
		"register lost":  {func(i *installation) { i.lose(register.BucketName(prefix)) }, false},
		"settings lost":  {func(i *installation) { i.lose(agreement.BucketName(prefix)) }, false},
		"all lost":       {func(i *installation) { i.lose(register.BucketName(prefix), agreement.BucketName(prefix)) }, false},
		"records lost":   {func(i *installation) { i.lose(enrich.BucketName(prefix)) }, false},
		"template removed": {func(i *installation) {
			must(i.T, templates.Remove(i.Context(), i.js, prefix, "chat.*"))
		}, false},
		"a tag deleted by hand": {func(i *installation) {
			bucket, err := i.js.KeyValue(i.Context(), register.BucketName(prefix))
			must(i.T, err)
			must(i.T, bucket.Delete(i.Context(), "plain"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t)
			from := i.backup()
			test.change(i)
			asked := false
			i.untouched(func() {
				err := i.restore(from, func(r *backup.Restoring) {
					r.Confirm = func(p backup.RestorePlan) error {
						if asked = true; p.Nothing() != test.nothing {
							t.Errorf("nothing is missing: %v, want %v: %+v", p.Nothing(), test.nothing, p)
						}
						return errNo
					}
				})
				if !errors.Is(err, errNo) || !asked {
					t.Errorf("the restore ended with %v, asked: %v", err, asked)
				}
			})
		})
	}
}

// TestDecisionIsAnnouncedAgain: a restore that ended between its decision and the
// announcement leaves nothing that is missing, and workers that hold what was
// granted before. Repeated, it makes up for the announcement.
func TestDecisionIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	from := i.backup()
	i.lose(register.BucketName(prefix))
	must(t, i.restore(from))
	want := i.entry(agreement.DecidedKey)
	bucket, err := i.js.KeyValue(t.Context(), agreement.BucketName(prefix))
	must(t, err)
	must(t, bucket.Delete(t.Context(), agreement.DecidedKey))
	must(t, i.restore(from, func(r *backup.Restoring) {
		r.Confirm = func(p backup.RestorePlan) error {
			if !p.Nothing() {
				t.Errorf("something is missing: %+v", p)
			}
			return backup.ErrNothing
		}
	}))
	if got := i.entry(agreement.DecidedKey); string(got.Value) != string(want.Value) || len(want.Value) == 0 {
		t.Errorf("announced: %q, want %q", got.Value, want.Value)
	}
}

// TestRestoreRefused: another installation, or the backup of another prefix, is
// refused before any prompt or write. The other installation is named
// with its age and its tags.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	own, other := newInstallation(t), newInstallation(t)
	from := own.backup()
	fresh := &installation{T: t, js: natstest.JetStream(t, natstest.Start(t).Connect(t)), source: own.source}
	for name, test := range map[string]struct {
		at     *installation
		change func(*backup.Restoring)
		is     error
		says   []string
	}{
		"another installation": {other, func(*backup.Restoring) {}, backup.ErrOther, []string{
			other.id, " since 20", " with 5 tags", own.id, "--replace-installation " + other.id}},
		"not the one to replace": {other, func(r *backup.Restoring) { r.Replace = own.id }, backup.ErrOther, []string{"--replace-installation " + other.id}},
		"none to replace":        {fresh, func(r *backup.Restoring) { r.Replace = other.id }, backup.ErrOther, []string{"none to replace"}},
		"another prefix":         {own, func(r *backup.Restoring) { r.Backup.Prefix = "prod" }, backup.ErrPrefix, []string{"prod", "ids", "--prefix prod"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.at.untouched(func() {
				err := test.at.restore(from, test.change, func(r *backup.Restoring) {
					r.Confirm = func(backup.RestorePlan) error { t.Error("it asks"); return nil }
				})
				if !errors.Is(err, test.is) {
					t.Fatalf("%v, want %v", err, test.is)
				}
				for _, text := range test.says {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q does not say %q", err, text)
					}
				}
			})
		})
	}
}

// TestReplace: a backup takes the place of the installation that processes made
// while the data was lost. The entries of both are raised, and the ID is that
// of the backup. It may be run again.
func TestReplace(t *testing.T) {
	t.Parallel()
	own, other := newInstallation(t), newInstallation(t)
	from := own.backup()
	other.add("order 1000 500000 strict\nlater 1000 400\n")
	replace := func(r *backup.Restoring) { r.Replace = other.id }
	must(t, other.restore(from, replace))
	must(t, other.restore(from, replace)) // no other installation is there any more
	b, err := backup.Read(from)
	must(t, err)
	if got := other.export(b.Taken.UnixMicro()); !strings.Contains(got, "later 1000 2\n") {
		t.Errorf("exported:\n%s", got)
	}
	if id, err := agreement.PeekInstallation(t.Context(), other.js, prefix); err != nil || id != own.id {
		t.Errorf("the installation is %s, %v, want %s", id, err, own.id)
	}
}

// TestFolderThatIsNotWhole: a backup of which any byte was changed, or any
// part is missing, is refused in one sentence, and so is that of a newer version.
func TestFolderThatIsNotWhole(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	whole := i.backup()
	if _, err := backup.Read(whole); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "changed")
	must(t, os.CopyFS(folder, os.DirFS(whole)))
	refused := func(what, says string) {
		t.Helper()
		_, err := backup.Read(folder)
		switch {
		case !errors.Is(err, backup.ErrFolder):
			t.Errorf("%s: %v", what, err)
		case !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: %v does not say %q in one sentence", what, err, says)
		}
	}
	entries, err := os.ReadDir(folder)
	must(t, err)
	if len(entries) != 3 {
		t.Errorf("files: %v", entries)
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		info, err := os.Stat(filepath.Join(whole, entry.Name()))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", entry.Name(), info.Mode())
		}
		data, err := os.ReadFile(path)
		must(t, err)
		for n := range data {
			changed := slices.Clone(data)
			changed[n] ^= 1
			must(t, os.WriteFile(path, changed, 0o600))
			refused(fmt.Sprintf("byte %d of %s changed", n, entry.Name()), "")
			must(t, os.WriteFile(path, data[:n], 0o600))
			refused(fmt.Sprintf("%s cut after %d bytes", entry.Name(), n), "")
		}
		must(t, os.WriteFile(path, append(slices.Clone(data), '\n'), 0o600))
		refused(entry.Name()+" is longer", "SHA256SUMS")
		must(t, os.Remove(path))
		refused(entry.Name()+" is missing", entry.Name()+" is missing")
		must(t, os.WriteFile(path, data, 0o600))
	}
	manifest := filepath.Join(folder, "backup.json")
	data, err := os.ReadFile(manifest)
	must(t, err)
	must(t, os.WriteFile(manifest, bytes.Replace(data, []byte(`"format": 1`), []byte(`"format": 2`), 1), 0o600))
	refused("a newer format", "a newer version of idworker wrote it")
}

// TestFolderIsNew: a backup is not written into a folder that is in use.
func TestFolderIsNew(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	folder := i.backup()
	b, err := backup.Read(folder)
	must(t, err)
	if err := b.Write(folder); !errors.Is(err, backup.ErrExists) {
		t.Errorf("written again: %v", err)
	}
	empty := t.TempDir()
	must(t, b.Write(empty))
	if again, err := backup.Read(empty); err != nil || again.Installation != i.id {
		t.Errorf("in an empty folder: %s, %v", again.Installation, err)
	}
}
