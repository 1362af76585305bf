package lease

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// leaseValue is the JSON of a lease.
type leaseValue struct {
	Hold     string    `json:"hold"` // identifies a hold of a worker ID
	Instance string    `json:"instance"`
	Host     string    `json:"host,omitempty"`
	Since    time.Time `json:"since"`
	// The holder's at this heartbeat, Unix time in ms.
	Clock  int64  `json:"clock"`
	Layout string `json:"layout"`

	Write string `json:"write"` // a random number, see ownEntry.sent
	// The clock bucket's stream had reached it, and the count of its losses
	// was that when the worker ID was claimed.
	Seq    uint64 `json:"seq"`
	Losses uint64 `json:"losses,omitempty"`

	// Fence is the time from a heartbeat to the end of the holder's fence, in
	// ms. Its JSON name is that of the TTL, for which it once stood.
	Fence int64 `json:"ttl"`

	// Installation only informs readers, and may be empty. A lease of another installation, which
	// a copied bucket may contain, blocks the worker ID like any other: the
	// safe side.
	Installation string `json:"installation,omitempty"`
}

// clockValue is the JSON of an entry of the clock bucket.
type clockValue struct {
	// The end of all reserved time, in the layout's time units.
	Hi   int64  `json:"hi"`
	Hold string `json:"hold"`

	Write string `json:"write"` // as in leaseValue
}

// encode writes a value as JSON. The values contain only text, numbers and
// times of this century, which always marshal.
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

func decodeLease(r bucketEntry) (leaseValue, error) {
	var v leaseValue
	if err := json.Unmarshal(r.value, &v); err != nil || v.Hold == "" {
		return leaseValue{}, corrupt(r)
	}
	return v, nil
}

// decodeClock is strict, because a guessed hi may be too low. A deleted entry
// is corrupt too: no process deletes one.
func decodeClock(r bucketEntry) (clockValue, error) {
	var v struct {
		Hi    *int64 `json:"hi"`
		Hold  string `json:"hold"`
		Write string `json:"write"`
	}
	if err := json.Unmarshal(r.value, &v); r.deleted || err != nil || v.Hi == nil || *v.Hi < 0 || v.Hold == "" {
		return clockValue{}, corrupt(r)
	}
	return clockValue{*v.Hi, v.Hold, v.Write}, nil
}

func leaseStamp(r bucketEntry) (stamp, error) {
	v, err := decodeLease(r)
	return stamp{v.Hold, v.Write}, err
}

func clockStamp(r bucketEntry) (stamp, error) {
	v, err := decodeClock(r)
	return stamp{v.Hold, v.Write}, err
}

func corrupt(r bucketEntry) error {
	if r.deleted {
		return fmt.Errorf("%w: key %s was deleted", ErrCorrupt, r.key)
	}
	return fmt.Errorf("%w: key %s: %.100q", ErrCorrupt, r.key, r.value)
}

// key is the key of a worker ID in both buckets: 7, or with datacenters 3.7.
func key(l snowflake.Layout, datacenter, worker int64) string {
	if l.MaxDatacenter() == 0 {
		return strconv.FormatInt(worker, 10)
	}
	return fmt.Sprintf("%d.%d", datacenter, worker)
}

// parseKey reads a key as the function key writes it, with this layout.
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
