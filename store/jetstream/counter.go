package jetstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/idworker/idworker/store"
)

// counter is the value of a key.
type counter struct {
	MaxID int64 `json:"max_id"` // the first ID that is not handed out yet, at least 1
	Step  int64 `json:"step"`   // the configured step, at least 1

	// Removed makes the counter a tombstone: there is no such tag, but there was one.
	Removed bool `json:"removed,omitempty"`
}

func (c counter) encode() []byte {
	data, err := json.Marshal(c)
	if err != nil { // numbers and a bool always marshal
		panic(err)
	}
	return data
}

// decodeCounter reads a counter. Anything that is not exactly one is ErrCorrupt: a
// guessed counter could hand out IDs a second time.
func decodeCounter(data []byte) (counter, error) {
	var c counter
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return counter{}, fmt.Errorf("%w: %.100q: %w", store.ErrCorrupt, data, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return counter{}, fmt.Errorf("%w: %.100q: more than one value", store.ErrCorrupt, data)
	}
	if c.MaxID < 1 || c.Step < 1 {
		return counter{}, fmt.Errorf("%w: %.100q: max_id and step must be 1 or more", store.ErrCorrupt, data)
	}
	return c, nil
}
