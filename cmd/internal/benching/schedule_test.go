package benching

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLatencyCountsFromWhenItWasDue: a stall counts for every request that it held up.
func TestLatencyCountsFromWhenItWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{began: time.Now(), rate: 10}
		for i := range 3 {
			due, ok := s.next(t.Context())
			if want := s.began.Add(time.Duration(i) * 100 * time.Millisecond); !ok || !due.Equal(want) || !time.Now().Equal(want) {
				t.Errorf("request %d was due after %v, want %v", i, due.Sub(s.began), want.Sub(s.began))
			}
		}
		time.Sleep(time.Second) // the only caller waits for its answer
		for i := 3; i < 13; i++ {
			due, _ := s.next(t.Context())
			if want := time.Duration(i) * 100 * time.Millisecond; due.Sub(s.began) != want {
				t.Errorf("request %d was due after %v, want %v", i, due.Sub(s.began), want)
			}
		}
		if n := s.due(1200 * time.Millisecond); n != 12 {
			t.Errorf("%d requests are due within 1.2 s, want 12", n)
		}
	})
}
