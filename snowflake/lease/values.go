package lease

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// leaseValue is what the entry of a lease says.
type leaseValue struct {
	Hold     string    `json:"hold"` // names one hold of one worker ID
	Instance string    `json:"instance"`
	Host     string    `json:"host,omitempty"`
	Since    time.Time `json:"since"`
	Clock    int64     `json:"clock"` // the holder's at this heartbeat, Unix time in ms
	Layout   string    `json:"layout"`

	// Workers of before have none of these. They ignore them, and never wrote what is looked for.
	Write string `json:"write,omitempty"` // a random number, see entry.sent
	Seq   uint64 `json:"seq,omitempty"`   // the clock bucket's stream had reached it

	// Fence is how far the holder's fence reaches beyond a heartbeat, in ms. It has the name of
	// what it was before fences reached further than the TTL: whoever reads it wants to know how
	// far a fence may reach.
	Fence int64 `json:"ttl,omitempty"`

	// Installation only informs those who look. A lease that names another one, which a copied
	// bucket may have, keeps others off like any: that is the safe side.
	Installation string `json:"installation,omitempty"`
}

// clockValue is what an entry of the clock bucket says.
type clockValue struct {
	Hi   int64  `json:"hi"` // the end of all time given away, in the layout's time units
	Hold string `json:"hold"`

	Write string `json:"write,omitempty"` // as in leaseValue
}

// encode writes one of the two as JSON. They are text, numbers and a time of this
// century, which always marshal.
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

func decodeLease(r record) (leaseValue, error) {
	var v leaseValue
	if err := json.Unmarshal(r.value, &v); err != nil || v.Hold == "" {
		return leaseValue{}, corrupt(r)
	}
	return v, nil
}

// decodeClock is strict, because a guessed hi may be one that was passed long ago.
// A deleted entry is corrupt too: nobody deletes one.
func decodeClock(r record) (clockValue, error) {
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

func leaseStamp(r record) (stamp, error) {
	v, err := decodeLease(r)
	return stamp{v.Hold, v.Write}, err
}

func clockStamp(r record) (stamp, error) {
	v, err := decodeClock(r)
	return stamp{v.Hold, v.Write}, err
}

func corrupt(r record) error {
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
