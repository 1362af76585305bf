package worker

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// anyBucket has a name and no more.
type anyBucket struct{ jetstream.KeyValue }

func (anyBucket) Bucket() string { return "ids_tags" }

// directoryEntry is what somebody wrote into the directory.
type directoryEntry struct {
	jetstream.KeyValueEntry
	key, value string
}

func (e directoryEntry) Key() string                     { return e.key }
func (e directoryEntry) Value() []byte                   { return []byte(e.value) }
func (e directoryEntry) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

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
		step, ok := d.decode(directoryEntry{key: c.key, value: c.value})
		if step != c.want || ok != (c.want > 0) {
			t.Errorf("%s = %s: %d, %v; want %d", c.key, c.value, step, ok, c.want)
		}
	}
}
