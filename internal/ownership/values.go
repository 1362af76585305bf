package ownership

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// leaseID is the identity of a lease: the key it is kept under, and which life of that key it is.
// Lives are counted from 1 and only up. So an entry with a later life, or with this life and
// ended, proves that the lease is over, however old the entry is.
type leaseID struct {
	Place int    `json:"place"`
	Life  uint64 `json:"life"`
}

// none is no lease.
var none leaseID

func (l leaseID) before(other leaseID) bool {
	return l.Place < other.Place || l.Place == other.Place && l.Life < other.Life
}

// How a lease ended.
const (
	stopped = "stopped" // its process ended it
	lost    = "lost"    // others did
	gone    = "gone"    // others did, and an operator has said that its process has ended
)

// leaseValue is the value of a lease's key.
type leaseValue struct {
	Life         uint64 `json:"life"`
	Instance     string `json:"instance"`
	Host         string `json:"host,omitempty"`
	Installation string `json:"installation,omitempty"`
	Rules        uint64 `json:"rules"`
	Term         int64  `json:"term_ms"`           // T of the process
	Rest         int64  `json:"rest_ms,omitempty"` // how long it may be silent while it rests; 0 if it does not
	Ended        string `json:"ended,omitempty"`   // how, if it ended
	Write        string `json:"write"`             // a fresh random number
}

func (v leaseValue) term() time.Duration { return time.Duration(v.Term) * time.Millisecond }
func (v leaseValue) rest() time.Duration { return time.Duration(v.Rest) * time.Millisecond }

// rests reports whether the process rests: it owns nothing, takes nothing, and renews rarely.
func (v leaseValue) rests() bool { return v.Rest > 0 }

// slotValue is the value of a slot's key. Slots that were handed over have no lease.
type slotValue struct {
	Lease leaseID `json:"lease"`
	To    leaseID `json:"to,omitzero"` // to whom it was handed over
	Epoch uint64  `json:"epoch"`       // of the present owner, or of the last one
	Write string  `json:"write"`
}

// The keys of the bucket: its identity, and one for each lease and slot.
const (
	identityKey = "identity"
	leasePrefix = "lease."
	slotPrefix  = "slot."
)

func leaseKey(place int) string { return leasePrefix + strconv.Itoa(place) }
func slotKey(slot int) string   { return slotPrefix + strconv.Itoa(slot) }

// number reads the number at the end of a key.
func number(key, prefix string) (n int, ok bool) {
	digits, found := strings.CutPrefix(key, prefix)
	n, err := strconv.Atoi(digits)
	return n, found && err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// maxTerm bounds T, so that a value that was damaged does not keep a dead process's slots for ever.
// A process that rests may be silent for no longer either.
const maxTerm = 5 * time.Minute

func decodeLease(value []byte) (v leaseValue, err error) {
	if err = json.Unmarshal(value, &v); err == nil && (v.Life == 0 || v.Term <= 0 || v.term() > maxTerm || v.Rest < 0 || v.rest() > maxTerm) {
		err = fmt.Errorf("life %d, a lease time of %d ms and a rest of %d ms, allowed is 1 or more, 1 to %d, and 0 to %d",
			v.Life, v.Term, v.Rest, maxTerm.Milliseconds(), maxTerm.Milliseconds())
	}
	return v, err
}

func decodeSlot(value []byte) (v slotValue, err error) {
	if err = json.Unmarshal(value, &v); err == nil && v.Epoch == 0 {
		err = fmt.Errorf("no epoch")
	}
	return v, err
}

// encode marshals a struct of numbers and strings, which cannot fail.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
