package witness

import (
	"os"
	"testing"
)

// TestProblem: a file in memory counts as none, and so does one on the disk of
// the data.
func TestProblem(t *testing.T) {
	const memory = "/dev/shm"
	if !inMemory(memory) {
		t.Skip(memory + " is not in memory here")
	}
	own, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if inMemory(own) {
		t.Skip("the sources are in memory")
	}
	for _, c := range []struct {
		folder, data string
		fine         bool
	}{
		{memory, "", false},
		{own, "", true},
		{own, memory, true},
		{own, own, false},
		{own, "/there/is/none", true}, // of a container
	} {
		if why := Problem(c.folder, c.data); (why == "") != c.fine {
			t.Errorf("%+v: %q", c, why)
		}
	}
}
