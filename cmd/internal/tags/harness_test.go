package tags_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/recovery"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/messages"
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

// installation counts in JetStream, without workers.
type installation struct {
	*testing.T
	js     jetstream.JetStream
	source backend.Backend
	tags   *tags.Tags
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source, err := backend.Parse("jetstream", "")
	must(t, err)
	must(t, register.Create(t.Context(), js, prefix, 1))
	i := &installation{T: t, js: js, source: source}
	i.open()
	return i
}

// open opens the tags, as the next command does.
func (i *installation) open() {
	i.Helper()
	all, err := tags.Open(i.Context(), i.js, prefix, i.source)
	must(i.T, err)
	i.Cleanup(all.Close)
	i.tags = all
}

// raise raises all tags by a number, as a command does that is alone.
func (i *installation) raise(by int64) {
	i.Helper()
	s, err := i.source.OpenToRaise(i.Context(), register.Config{JetStream: i.js, Prefix: prefix}, 1, 1, true)
	must(i.T, err)
	mark, err := s.Mark(i.Context(), s.Lowest()+by, register.MarkOptions{Over: true, Alone: true})
	must(i.T, err)
	err = s.Rewrite(i.Context(), register.Raise{Target: mark.Target(), By: by}, func(register.Effect) {})
	must(i.T, mark.Finish(i.Context(), err, register.Decision{Time: time.Now()}))
	must(i.T, s.Close())
	i.open()
}

func (i *installation) export() string {
	i.Helper()
	all, err := i.tags.Export(i.Context())
	must(i.T, err)
	text := new(strings.Builder)
	must(i.T, all.Text(text))
	return text.String()
}

func (i *installation) importText(text string) error {
	i.Helper()
	all, err := tags.Parse(strings.NewReader(text))
	must(i.T, err)
	return recovery.Import(i.Context(), recovery.On(i.js, prefix, i.source), all, false, func(tags.Change) {})
}
