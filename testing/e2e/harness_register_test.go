package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// refuses waits until a process has ended. It has to have refused to serve,
// with all of those texts.
func refuses(t *testing.T, p *process, says ...string) {
	t.Helper()
	if p.servesOrEnds() {
		t.Errorf("idworker %s serves, want a refusal with %q", p.name, says)
		p.kill()
		return
	}
	last := p.stderr.Tail()
	if code := p.cmd.ProcessState.ExitCode(); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	for _, text := range says {
		if !strings.Contains(last, text) {
			t.Errorf("does not say %q:\n%s", text, last)
		}
	}
}

// registerAt is the last sequence of the register.
func registerAt(t testing.TB, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), registerBucket)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// moreGrants waits until some ranges were granted. Callers may live on memory
// for a while.
func moreGrants(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	target := registerAt(t, js) + 5
	natstest.Eventually(t, "ranges are granted", func() bool { return registerAt(t, js) >= target })
}

// noted waits until witnesses hold all that is in the register by now: a
// restore takes longer than the second between two notes.
func noted(t testing.TB, js jetstream.JetStream, witnesses ...string) {
	t.Helper()
	at := registerAt(t, js)
	natstest.Eventually(t, "the witnesses are up to date", func() bool {
		for _, path := range witnesses {
			var seen map[string]struct{ Seen uint64 }
			data, err := os.ReadFile(path)
			if err != nil || json.Unmarshal(data, &seen) != nil || seen["ids_register"].Seen < at {
				return false
			}
		}
		return true
	})
}

// raiseAll raises all tags by the time, and returns the lowest first ID of new
// tags.
func raiseAll(t testing.TB, where ...string) int64 {
	t.Helper()
	r := must(t, append([]string{"tag", "raise", "--all", "--yes", "--json"}, where...)...)
	var raised struct {
		Floor int64 `json:",string"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &raised); err != nil || raised.Floor <= 0 {
		t.Fatalf("tag raise: %v\n%s", err, r.stdout)
	}
	return raised.Floor
}

// remedy is the command that every report of a regressed register names.
const remedy = "idworker tag raise --all"
