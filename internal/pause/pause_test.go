package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/internal/pause"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		pause.For(t.Context(), time.Hour)
		if took := time.Since(began); took != time.Hour {
			t.Errorf("%v, want an hour", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		pause.For(ctx, time.Hour)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("%v with a context that ends after a minute", took)
		}
	})
}
