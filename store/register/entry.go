package register

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/idworker/idworker/store"
)

// entry is the value of a key: the granted IDs of a tag.
type entry struct {
	Next int64 `json:"next"` // first ID that was not granted, at least 1

	// Step is the configured step, or 0 for the tags of a table, whose rows
	// have steps.
	Step int64 `json:"step,omitempty"`

	// Order is "" for store.Trend. It never changes.
	Order store.Order `json:"order,omitempty"`

	// Removed entries keep Next and Order for a tag that is created again. In
	// front of a table the mark means that no row is expected; if there is a
	// row, the tag exists.
	Removed bool `json:"removed,omitempty"`
}

// order returns the order of the tag.
func (e entry) order() store.Order { return cmp.Or(e.Order, store.Trend) }

// stored returns an order in the form of entries.
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

// decode reads an entry. Anything else is ErrCorrupt, unknown fields included:
// a guess could grant IDs a second time.
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

// storedEntry is an entry with its revision. Revision 0 means that the key
// never existed; a revision without an entry is the marker of a key that was
// deleted by hand.
type storedEntry struct {
	entry
	revision uint64
}

// exists reports whether there is an entry.
func (r storedEntry) exists() bool { return r.Next > 0 }

// deleted reports whether the entry was deleted by hand.
func (r storedEntry) deleted() bool { return !r.exists() && r.revision > 0 }
