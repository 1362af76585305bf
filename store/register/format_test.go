package register

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/idworker/idworker/store"
)

// TestFormatOf020: entries and the witness of version 0.2.0 are read, and
// written the same.
func TestFormatOf020(t *testing.T) {
	for value, want := range map[string]entry{
		`{"next":1101,"step":1000}`:                              {Next: 1101, Step: 1000},
		`{"next":9,"step":1000,"order":"strict","removed":true}`: {Next: 9, Step: 1000, Order: store.Strict, Removed: true},
	} {
		e, err := decode([]byte(value))
		if err != nil || e != want || string(e.encode()) != value {
			t.Errorf("%s is read as %+v, %v, and written as %s", value, e, err, e.encode())
		}
	}

	const file = `{"ids_clock":{"seen":7},"ids_register":{"id":"a","seen":12,"entries":2,"first":501,"decisions":["b","c"]}}` + "\n"
	path := filepath.Join(t.TempDir(), "ids.witness")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWitness(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.write(w.buckets); err != nil {
		t.Fatal(err)
	}
	if found, err := os.ReadFile(path); err != nil || string(found) != file {
		t.Errorf("the witness is written as %s, %v, want %s", found, err, file)
	}
}
