package loadmsg_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/loadmsg"
)

// TestFormatOf020: load events and grants of version 0.2.0 are read, and
// written the same.
func TestFormatOf020(t *testing.T) {
	const event = `{"instance":"W1","tag":"order","step":100,"unknown":true,"want":5,"seq":7,"runway_ms":900,"installation":"a"}`
	if e, err := loadmsg.DecodeEvent([]byte(event), 1000); err != nil || string(e.Encode()) != event {
		t.Errorf("event written as %s, %v, want %s", e.Encode(), err, event)
	}
	for _, grant := range []string{
		`{"instance":"W1","tag":"order","seq":7,"first":1,"end":101,"step":100,"order":"trend","installation":"a"}`,
		`{"instance":"W1","tag":"order","seq":7,"installation":"a","refused":404}`,
		`{"instance":"W1","tag":"order","seq":7,"installation":"a","refused":429,"reason":"busy","pause_ms":500}`,
		`{"instance":"W1","tag":"order","seq":7,"installation":"a","not_now":"store","reason":"down"}`,
	} {
		if g, err := loadmsg.DecodeGrant([]byte(grant)); err != nil || string(g.Encode()) != grant {
			t.Errorf("grant written as %s, %v, want %s", g.Encode(), err, grant)
		}
	}
}

// TestFormatOfAFullTemplate: a refusal names the template that is full.
func TestFormatOfAFullTemplate(t *testing.T) {
	const grant = `{"instance":"W1","tag":"order.1","seq":7,"installation":"a","refused":429,"reason":"full","full_template":"order.*"}`
	if g, err := loadmsg.DecodeGrant([]byte(grant)); err != nil || string(g.Encode()) != grant {
		t.Errorf("grant written as %s, %v, want %s", g.Encode(), err, grant)
	}
}

// TestFormatOfLines: a grant names the decision, the loader and the write that it
// comes from.
func TestFormatOfLines(t *testing.T) {
	const grant = `{"instance":"W1","tag":"order","seq":7,"first":1000,"end":1101,"step":100,"order":"trend","installation":"a","floor":1000,"loader":"L1","sequence":12}`
	if g, err := loadmsg.DecodeGrant([]byte(grant)); err != nil || string(g.Encode()) != grant {
		t.Errorf("grant written as %s, %v, want %s", g.Encode(), err, grant)
	}
	for _, bad := range []string{`"floor":-1`, `"loader":"a.b"`, `"sequence":-1`} {
		if g, err := loadmsg.DecodeGrant([]byte(`{"instance":"W1","tag":"order","seq":7,"refused":404,` + bad + `}`)); err == nil {
			t.Errorf("%s: %+v", bad, g)
		}
	}
}

// TestFormatOfClaims: an event has the decision that the worker has learned, the
// highest sequence of the register that it has seen, and the end of its latest grant of the
// tag. Without a decision it claims nothing.
func TestFormatOfClaims(t *testing.T) {
	const event = `{"instance":"W1","tag":"order","step":100,"want":0,"seq":7,"installation":"a","floor":1000,"sequence":12,"next":1101}`
	e, err := loadmsg.DecodeEvent([]byte(event), 1000)
	if err != nil || string(e.Encode()) != event {
		t.Errorf("event written as %s, %v, want %s", e.Encode(), err, event)
	}
	if want := (store.Claim{By: "W1", Floor: 1000, Sequence: 12, Tag: "order", Next: 1101}); e.Claim() != want {
		t.Errorf("claims %+v, want %+v", e.Claim(), want)
	}
	if e.Floor = 0; !e.Claim().IsZero() {
		t.Errorf("claims %+v without a decision", e.Claim())
	}

	const message = `{"instance":"L1","installation":"a","created":"2026-11-22T12:00:00Z","claims":[{"by":"L1","floor":1,"sequence":12,"entries":3},{"by":"W1","floor":1,"sequence":20,"heard":true}]}`
	m, err := loadmsg.DecodeClaims([]byte(message))
	if err != nil || string(m.Encode()) != message || !m.Created.Equal(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("claims written as %s, %v, want %s", m.Encode(), err, message)
	}
	want := []store.Claim{{By: "L1", Floor: 1, Sequence: 12, Entries: 3}, {By: "W1", Floor: 1, Sequence: 20, Heard: true}}
	if !slices.Equal(m.Claims, want) {
		t.Errorf("claims %+v, want %+v", m.Claims, want)
	}
	if _, err := loadmsg.DecodeClaims(nil); !errors.Is(err, loadmsg.ErrMalformed) {
		t.Errorf("a request for a name: %v, want ErrMalformed", err)
	}
}
