package worker

import (
	"cmp"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
)

// anyBucket has a name and no more.
type anyBucket struct{ jetstream.KeyValue }

func (anyBucket) Bucket() string { return "ids_tags" }

// TestOnlyUsableEntriesAreDecoded: what is no tag that can be served is left out, whoever
// wrote it.
func TestOnlyUsableEntriesAreDecoded(t *testing.T) {
	d := &Directory{kv: anyBucket{}, log: zap.NewNop()}
	for _, c := range []struct {
		key, value string
		want       int64 // 0: unusable
	}{
		{"order", `{"step":7}`, 7},
		{"a.b", `{"step":1,"more":true}`, 1},
		{"order", ``, 0},
		{"order", `{`, 0},
		{"order", `{}`, 0},
		{"order", `{"step":0}`, 0},
		{"order", `{"step":-1}`, 0},
		{"order", `{"step":1e30}`, 0},
		{"f=g", `{"step":7}`, 0},
	} {
		step := d.decode(kvwatch.Entry{Key: c.key, Value: []byte(c.value)})
		if want := cmp.Or(c.want, unusable); step != want {
			t.Errorf("%s = %s: %d, want %d", c.key, c.value, step, want)
		}
	}
}
