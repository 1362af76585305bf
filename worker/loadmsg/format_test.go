package loadmsg_test

import (
	"testing"

	"github.com/idworker/idworker/worker/loadmsg"
)

// TestFormatOf010: load events and grants of version 0.1.0 are read, and
// written the same.
func TestFormatOf010(t *testing.T) {
	const event = `{"instance":"W1","tag":"order","step":100,"unknown":true,"want":5,"seq":7,"runway_ms":900,"installation":"a"}`
	if e, err := loadmsg.DecodeEvent([]byte(event), 1000); err != nil || string(e.Encode()) != event {
		t.Errorf("event written as %s, %v, want %s", e.Encode(), err, event)
	}
	for _, grant := range []string{
		`{"instance":"W1","tag":"order","seq":7,"first":1,"end":101,"step":100,"order":"trend","installation":"a"}`,
		`{"instance":"W1","tag":"order","seq":7,"refused":404}`,
		`{"instance":"W1","tag":"order","seq":7,"refused":429,"reason":"busy","pause_ms":500}`,
		`{"instance":"W1","tag":"order","seq":7,"not_now":"store","reason":"down"}`,
	} {
		if g, err := loadmsg.DecodeGrant([]byte(grant)); err != nil || string(g.Encode()) != grant {
			t.Errorf("grant written as %s, %v, want %s", g.Encode(), err, grant)
		}
	}
}
