package nemesis

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestHarm: a file is changed, and what it was is returned.
func TestHarm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.blk")
	content := bytes.Repeat([]byte("messages"), 2000)
	cut := 0
	for seed := range uint64(100) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		whole, err := harm(path, rand.New(rand.NewPCG(seed, 1)))
		if err != nil || !bytes.Equal(whole, content) {
			t.Fatalf("seed %d: got %d bytes and %v, want what the file was", seed, len(whole), err)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(now, content) || len(now) > len(content) {
			t.Errorf("seed %d: the file is not damaged", seed)
		}
		if len(now) < len(content) {
			cut++
		}
	}
	if cut == 0 || cut == 100 {
		t.Errorf("%d of 100 files were cut", cut)
	}
}
