package lease

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// leaseEntry is the value of a key in the bucket of leases.
type leaseEntry struct {
	Hold     string    `json:"hold"` // names one holding of one worker ID
	Instance string    `json:"instance"`
	Host     string    `json:"host,omitempty"`
	Since    time.Time `json:"since"`
	Clock    int64     `json:"clock"` // of the holder at this heartbeat, Unix time in ms
	Layout   string    `json:"layout"`
}

// clockEntry is the value of a key in the clock bucket.
type clockEntry struct {
	Hi   int64  `json:"hi"` // in the layout's time units
	Hold string `json:"hold"`
}

// encode of two structs of text and integers; they always marshal.
func encode(entry any) []byte {
	data, err := json.Marshal(entry)
	if err != nil {
		panic(err)
	}
	return data
}

func decodeLease(r record) (leaseEntry, error) {
	var e leaseEntry
	if err := json.Unmarshal(r.value, &e); err != nil || e.Hold == "" {
		return leaseEntry{}, corrupt(r)
	}
	return e, nil
}

// decodeClock is strict: an hi that is guessed may be one that was passed long ago.
// A marker where an entry was is corrupt too, for nobody deletes one.
func decodeClock(r record) (clockEntry, error) {
	var e struct {
		Hi   *int64 `json:"hi"`
		Hold string `json:"hold"`
	}
	if err := json.Unmarshal(r.value, &e); r.deleted || err != nil || e.Hi == nil || *e.Hi < 0 || e.Hold == "" {
		return clockEntry{}, corrupt(r)
	}
	return clockEntry{*e.Hi, e.Hold}, nil
}

func corrupt(r record) error {
	if r.deleted {
		return fmt.Errorf("%w: key %s was deleted", ErrCorrupt, r.key)
	}
	return fmt.Errorf("%w: key %s: %.100q", ErrCorrupt, r.key, r.value)
}

// key is where a worker ID is found in both buckets: 7, or with datacenters 3.7.
func key(l snowflake.Layout, datacenter, worker int64) string {
	if l.MaxDatacenter() == 0 {
		return strconv.FormatInt(worker, 10)
	}
	return fmt.Sprintf("%d.%d", datacenter, worker)
}

// parseKey reads a key of this layout.
func parseKey(l snowflake.Layout, text string) (datacenter, worker int64, ok bool) {
	last := text
	if first, rest, two := strings.Cut(text, "."); two {
		last = rest
		datacenter, _ = strconv.ParseInt(first, 10, 64)
	}
	worker, _ = strconv.ParseInt(last, 10, 64)
	ok = worker >= 0 && worker <= l.MaxWorkerID() && datacenter >= 0 && datacenter <= l.MaxDatacenter()
	return datacenter, worker, ok && key(l, datacenter, worker) == text
}
