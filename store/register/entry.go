package register

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/idworker/idworker/store"
)

// entry is the value of a key: how far a tag was granted.
type entry struct {
	Next int64 `json:"next"` // the first ID that was not granted, at least 1

	// Step is the configured step. It is 0 where a table has the tag: rows have steps.
	Step int64 `json:"step,omitempty"`

	// Order is "" for store.Trend. It never changes.
	Order store.Order `json:"order,omitempty"`

	// Removed entries keep Next and Order for a tag that is created again. In front of a table
	// the mark says that no row is expected; if there is one, the tag exists.
	Removed bool `json:"removed,omitempty"`
}

// order is the order of the tag.
func (e entry) order() store.Order { return cmp.Or(e.Order, store.Trend) }

// stored is an order as entries have it.
func stored(o store.Order) store.Order {
	if o == store.Trend {
		return ""
	}
	return o
}

func (e entry) encode() []byte {
	data, err := json.Marshal(e)
	if err != nil { // numbers and a bool always marshal
		panic(err)
	}
	return data
}

// decode reads an entry. Anything else is ErrCorrupt, unknown fields included: a guess
// could grant IDs a second time.
func decode(value []byte) (e entry, err error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return entry{}, fmt.Errorf("%w: %.100q: %w", store.ErrCorrupt, value, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return entry{}, fmt.Errorf("%w: %.100q: more than one value", store.ErrCorrupt, value)
	}
	if e.Next < 1 || e.Step < 0 || e.Order.Check() != nil {
		return entry{}, fmt.Errorf("%w: %.100q: next must be 1 or more, step 0 or more, order %s or %s", store.ErrCorrupt, value, store.Trend, store.Strict)
	}
	e.Order = stored(e.Order)
	return e, nil
}

// record is an entry as it is stored. A revision of 0 means that the key never existed; a
// revision without an entry is the marker of a key that was deleted by hand.
type record struct {
	entry
	revision uint64
}

// exists reports whether there is an entry.
func (r record) exists() bool { return r.Next > 0 }

// deleted reports whether the entry was deleted by hand.
func (r record) deleted() bool { return !r.exists() && r.revision > 0 }
