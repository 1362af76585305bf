package verify_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/testing/enriched"
	"github.com/idworker/idworker/testing/soak"
)

// TestManyEvents: with many events, too, what is wrong is found, wherever it is, and the plain
// checker agrees.
func TestManyEvents(t *testing.T) {
	n := soak.Pick(100_000, 1_000_000)
	b := newBed(t, n)
	b.stream(readyConfig(b))
	dropped, doubled, shared := n/3, n/2+1, n-3
	b.drop(dropped)
	b.insert(doubled+500, b.clone(doubled))
	b.replace(shared, func(m *nats.Msg) {
		setID("3")(m)
		m.Data = fmt.Appendf(nil, `{"n":%d,"id":"3"}`, shared)
	})
	b.fill()
	began := time.Now()
	r := b.verify(b.config())
	took := time.Since(began)
	var got []enriched.Problem
	for _, f := range r.Findings {
		got = append(got, enriched.Problem{Kind: string(f.Kind), Source: f.Source})
	}
	want := []enriched.Problem{{Kind: string(verify.Missing), Source: uint64(dropped)}, {Kind: string(verify.Doubled), Source: uint64(doubled)}, {Kind: string(verify.SharedID), Source: uint64(shared)}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if plain, _, _ := b.brute(); !slices.Equal(plain, want) {
		t.Errorf("the plain checker finds %v, want %v", plain, want)
	}
	t.Logf("%d events in %v, %.0f/s", r.Events, took, float64(r.Events)/took.Seconds())
}
