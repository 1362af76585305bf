package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/testing/enriched"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// runVerify runs idworker enrich verify. memory is the most that it took, in bytes, as far as
// the system tells.
func runVerify(t testing.TB, url string) (r verify.Report, code int, memory int64) {
	t.Helper()
	var s settings
	if tier.IsSoak() { // which looks at the memory
		s.binary = plainBinary(t)
	}
	p := s.launch(t, "enrich", "verify", "--server", url,
		"--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.>", "--output", "json")
	natstest.Eventually(t, "enrich verify ends", func() bool {
		memory = max(memory, p.mostMemory())
		return p.hasEnded()
	})
	code = p.cmd.ProcessState.ExitCode()
	if err := json.Unmarshal([]byte(p.stdout.String()), &r); err != nil {
		t.Fatalf("enrich verify: %v, exit code %d\n%s", err, code, p.stderr.Tail())
	}
	return r, code, memory
}

// mostMemory is the most that the process has taken so far, in bytes, or 0 if the system does
// not tell. What it tells of a process that has ended counts the memory of this one, too.
func (p *process) mostMemory() (bytes int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if _, after, found := strings.Cut(string(status), "VmHWM:"); found {
		_, _ = fmt.Sscanf(after, "%d", &bytes)
	}
	return bytes << 10
}

// verify has idworker enrich verify find that nothing is wrong so far, and the plain checker
// agree. Enrichers may run meanwhile. It returns the report.
func (e *enrichment) verify() verify.Report {
	e.t.Helper()
	r, code, _ := runVerify(e.t, e.url)
	if code != exitOK || len(r.Faults) > 0 {
		e.t.Errorf("enrich verify: exit code %d, %+v", code, r)
	}
	if r.Gone > 0 || r.Waiting > 0 {
		return r // the plain checker knows nothing of what was removed
	}
	problems, events, _ := enriched.Enrichment{
		JetStream: e.js, From: "ORDERS", Filter: "orders.raw.>", To: "READY",
		Subject: func(s string) string { return strings.Replace(s, "raw", "ready", 1) },
	}.Problems(e.t)
	if len(problems) > 0 || uint64(events) < r.Events {
		e.t.Errorf("the plain checker finds %v and %d events, enrich verify %d events", problems, events, r.Events)
	}
	return r
}
