package backup

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store"
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

// newInstallation makes an installation without processes, with one of everything
// that a backup has.
func newInstallation(t *testing.T) (jetstream.JetStream, backend.Backend) {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source, err := backend.Parse("jetstream", "")
	must(t, err)
	must(t, agreement.Begin(t.Context(), js, prefix, 1, ""))
	must(t, register.Create(t.Context(), js, prefix, 1))
	all, err := tags.Open(t.Context(), js, prefix, source)
	must(t, err)
	defer all.Close()
	must(t, all.Create(t.Context(), store.Tag{Name: "order", Step: 1000, Next: 5, Order: store.Strict, Earliest: store.NeverUsed}))
	must(t, all.Create(t.Context(), store.Tag{Name: "gone", Step: 10, Next: 1, Order: store.Trend}))
	must(t, all.Remove(t.Context(), "gone"))
	must(t, all.CreateTemplate(t.Context(), templates.Template{Pattern: "chat.*", Step: 10, Order: store.Trend}))
	must(t, kv.Ensure(t.Context(), js, enrich.Bucket(prefix, 1)))
	records, err := js.KeyValue(t.Context(), enrich.BucketName(prefix))
	must(t, err)
	_, err = records.PutString(t.Context(), "orders", "first")
	must(t, err)
	return js, source
}

// taken takes a backup of a new installation.
func taken(t *testing.T) Backup {
	t.Helper()
	js, source := newInstallation(t)
	b, err := Take(t.Context(), js, prefix, source, "test")
	must(t, err)
	return b
}

// TestBackupLacksProof: that a register went back is about the register of that day.
// It gets into no backup, and a folder that has it is read without.
func TestBackupLacksProof(t *testing.T) {
	t.Parallel()
	js, source := newInstallation(t)
	agreed, err := agreement.Open(t.Context(), js, prefix)
	must(t, err)
	_, err = agreed.Agree(t.Context(), agreement.ProofKey, "proof")
	must(t, err)
	b, err := Take(t.Context(), js, prefix, source, "test")
	must(t, err)
	if proof, found := b.Config[agreement.ProofKey]; found {
		t.Errorf("the backup has %q", proof)
	}
	b.Config[agreement.ProofKey] = "proof"
	b, err = Read(written(t, b))
	must(t, err)
	if proof, found := b.Config[agreement.ProofKey]; found || len(b.Config) == 0 {
		t.Errorf("the folder is read with %q", proof)
	}
}

// TestBackupHasTheServersTime: a backup's time is the NATS server's, and if this
// machine's clock differs by more than 10 s there is no backup: one of both is
// wrong.
func TestBackupHasTheServersTime(t *testing.T) {
	t.Parallel()
	js, source := newInstallation(t)
	for _, off := range []time.Duration{0, 8 * time.Second, -8 * time.Second, time.Hour, -time.Hour, 24 * time.Hour} {
		before := time.Now()
		b, err := take(t.Context(), js, prefix, source, "test", func() time.Time { return time.Now().Add(off) })
		if off.Abs() > MaxClockDiff {
			if !errors.Is(err, ErrClock) || !strings.Contains(err.Error(), "this machine") || !strings.Contains(err.Error(), "the NATS server") {
				t.Errorf("with the clock off by %v: %v", off, err)
			}
			continue
		}
		if err != nil || b.Taken.Before(before) || b.Taken.After(time.Now()) {
			t.Errorf("with the clock off by %v: %v, taken at %v, %v", off, err, b.Taken, before)
		}
	}
}
