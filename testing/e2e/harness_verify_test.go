package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/testing/enriched"
)

// runVerify runs idworker enrich verify.
func runVerify(t testing.TB, url string) (r verify.Verification, code int) {
	t.Helper()
	found := run(t, "enrich", "verify", "--server", url, "--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.>", "--output", "json")
	if err := json.Unmarshal([]byte(found.stdout), &r); err != nil {
		t.Fatalf("enrich verify: %v, %+v", err, found)
	}
	return r, found.code
}

// verify has idworker enrich verify report no fault so far, and the plain
// checker agree. Enrichers may run at the same time. It returns the report.
func (e *enrichment) verify() verify.Verification {
	e.t.Helper()
	r, code := runVerify(e.t, e.url)
	if code != exitOK || len(r.Faults) > 0 {
		e.t.Errorf("enrich verify: exit code %d, %+v", code, r)
	}
	if r.Gone > 0 || r.Waiting > 0 {
		return r // the plain checker cannot see removed events
	}
	problems, events, _ := enriched.Streams{
		JetStream: e.js, From: "ORDERS", Filter: "orders.raw.>", To: "READY",
		Subject: func(s string) string { return strings.Replace(s, "raw", "ready", 1) },
	}.Problems(e.t)
	if len(problems) > 0 || uint64(events) < r.Events {
		e.t.Errorf("the plain checker finds %v and %d events, enrich verify %d events", problems, events, r.Events)
	}
	return r
}
