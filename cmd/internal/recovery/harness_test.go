package recovery

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/backup"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
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

// jetStream is the store of installations without a table.
func jetStream(t *testing.T) backend.Backend {
	t.Helper()
	source, err := backend.Parse("jetstream", "")
	must(t, err)
	return source
}

// options are those of [newInstallation].
type options struct {
	// Alone keeps the data in a folder that no other process uses, so that a raise
	// waits for no permit.
	alone bool

	source backend.Backend // zero: JetStream
	list   string          // tags and templates to begin with
	record string          // of the enrichment "orders"; empty: none
}

// installation is one without processes. It is asked as beside others, whatever
// its options.
type installation struct {
	*testing.T
	*Site

	id     string
	writer *Site // alone, or the one that is asked
}

func newInstallation(t *testing.T, o options) *installation {
	t.Helper()
	return inhabit(t, emptyInstallation(t, o), o)
}

// emptyInstallation is a server without buckets.
func emptyInstallation(t *testing.T, o options) *installation {
	t.Helper()
	if o.source == (backend.Backend{}) {
		o.source = jetStream(t)
	}
	if !o.alone {
		on := On(natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1))), prefix, o.source)
		return &installation{T: t, Site: on, writer: on}
	}
	folder, err := OpenFolder(t.Context(), folderIn(t), true, prefix, o.source)
	must(t, err)
	t.Cleanup(func() { must(t, folder.Close()) })
	folder.js = natstest.JetStream(t, folder.conn) // which waits as long as a slow machine takes
	return &installation{T: t, Site: On(folder.js, prefix, o.source), writer: folder}
}

// inhabit makes an installation on an empty server.
func inhabit(t *testing.T, i *installation, o options) *installation {
	t.Helper()
	must(t, agreement.Begin(t.Context(), i.js, prefix, 1, ""))
	must(t, register.Create(t.Context(), i.js, prefix, 1))
	agreed, err := agreement.Open(t.Context(), i.js, prefix)
	must(t, err)
	i.id, _, err = agreed.Installation(t.Context())
	must(t, err)
	must(t, agreed.ClaimStore(t.Context(), i.source.Name()))
	if o.list != "" {
		must(t, i.importText(o.list))
	}
	if o.record != "" {
		i.record("orders", o.record)
	}
	return i
}

// folderIn configures an embedded server on a folder that does not exist.
func folderIn(t *testing.T) embedded.Config {
	t.Helper()
	return embedded.Config{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, Folder: filepath.Join(t.TempDir(), "data"), Log: zap.NewNop(),
		Prefix: prefix, Beside: backend.Beside(prefix),
	}
}

// tags opens the tags, as a command does.
func (i *installation) tags() *tags.Tags {
	i.Helper()
	all, err := tags.Open(i.Context(), i.js, prefix, i.source)
	must(i.T, err)
	i.Cleanup(all.Close)
	return all
}

func parse(t *testing.T, text string) tags.Listing {
	t.Helper()
	list, err := tags.Parse(strings.NewReader(text))
	must(t, err)
	return list
}

func (i *installation) importText(text string) error {
	i.Helper()
	return Import(i.Context(), i.Site, parse(i.T, text), false, func(tags.Change) {})
}

// export returns the list of tags and templates.
func (i *installation) export() string {
	i.Helper()
	list, err := i.tags().Export(i.Context())
	must(i.T, err)
	return textOf(i.T, list)
}

// raised returns the list of tags and templates without the floor and first IDs.
// Tags below the target are an error.
func (i *installation) raised(target int64) string {
	i.Helper()
	list, err := i.tags().Export(i.Context())
	must(i.T, err)
	list.Floor = 0
	for n, tag := range list.Tags {
		if list.Tags[n].Next = 2; tag.Next < target {
			i.Errorf("tag %s is below %d", tag.Name, target)
		}
	}
	for n := range list.Templates {
		list.Templates[n].First = 0
	}
	return textOf(i.T, list)
}

func textOf(t *testing.T, list tags.Listing) string {
	t.Helper()
	text := new(strings.Builder)
	must(t, list.Text(text))
	return text.String()
}

// plan plans what a command asks for, and writes nothing.
func (i *installation) plan(w Wish) (*Plan, error) {
	evidence, err := Ask(i.Context(), i.Site, w)
	if err != nil {
		return nil, err
	}
	p, err := Make(evidence, w)
	if err != nil {
		return nil, err
	}
	return p, p.Look(i.Context(), i.Site)
}

// do does what a command asks for, without a prompt.
func (i *installation) do(w Wish, resources ...kv.Resource) (Result, error) {
	p, err := i.plan(w)
	if err != nil {
		return Result{}, err
	}
	p.Resources = resources
	return Apply(i.Context(), i.writer, p, func(tags.Change) {})
}

// backup takes a backup, and returns it as read from its folder.
func (i *installation) backup() *backup.Backup {
	i.Helper()
	taken, err := backup.Take(i.Context(), i.js, prefix, i.source, "test")
	must(i.T, err)
	folder := filepath.Join(i.TempDir(), "backup")
	must(i.T, taken.Write(folder))
	b, err := backup.Read(folder)
	must(i.T, err)
	return &b
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

// delete deletes a key, as somebody does by hand.
func (i *installation) delete(bucket, key string) {
	i.Helper()
	b, err := i.js.KeyValue(i.Context(), bucket)
	must(i.T, err)
	must(i.T, b.Delete(i.Context(), key))
}

// setting reads a setting.
func (i *installation) setting(key string) kv.Entry {
	i.Helper()
	e, err := kv.Get(i.Context(), i.js, agreement.BucketName(prefix), key)
	must(i.T, err)
	return e
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
			i.Errorf("stream %s is\n%s, was\n%s", name, after[name], cmp.Or(before[name], "missing"))
		}
	}
	if len(after) < len(before) {
		i.Errorf("streams: %d, were %d", len(after), len(before))
	}
}
