package worker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStartTakesAsLongAsTagsCome: a start is limited by silence, not by how many tags there are.
func TestStartTakesAsLongAsTagsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known, progress := make(chan struct{}), make(chan struct{})
		go func() {
			for range 100 {
				time.Sleep(startTimeout - time.Second)
				progress <- struct{}{}
			}
			close(known)
		}()
		if err := awaitKnown(t.Context(), known, progress); err != nil {
			t.Fatalf("tags were coming all the time: %v", err)
		}
		began := time.Now()
		err := awaitKnown(t.Context(), make(chan struct{}), progress)
		if err == nil || !strings.Contains(err.Error(), "nothing has come") {
			t.Errorf("got %v, want an error about silence", err)
		}
		if took := time.Since(began); took != startTimeout {
			t.Errorf("gave up after %v, want %v", took, startTimeout)
		}
	})
}
