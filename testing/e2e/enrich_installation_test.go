package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
)

// TestEnricherOfAnotherInstallation refuses to go on with what an enricher with other workers
// has begun: they may hand out the same IDs again. An operator can decide otherwise.
func TestEnricherOfAnotherInstallation(t *testing.T) {
	t.Parallel()
	const some = 20
	e := newEnrichment(t)
	p := e.start(e.url)
	e.publish(some)
	e.await(some)
	p.stop(syscall.SIGTERM)

	config, err := e.js.KeyValue(t.Context(), agreement.BucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.PutString(t.Context(), agreement.InstallationKey, "other 2026-01-02T03:04:05Z"); err != nil {
		t.Fatal(err)
	}
	r := settings{}.run(t, enrichFlags(e.url)...)
	if r.code == exitOK || !strings.Contains(r.stderr, "with other settings: installation was ") || !strings.Contains(r.stderr, ", now other;") || !strings.Contains(r.stderr, "--resume-after SEQ") {
		t.Errorf("an enricher with other workers (%d): %s", r.code, r.stderr)
	}
	e.resumeAfter(some)
	e.start(e.url)
	e.publish(some)
	e.checkAll()
}

// TestResumeAfterFailsAtOnce: a command that is asked once does not wait for a server.
func TestResumeAfterFailsAtOnce(t *testing.T) {
	t.Parallel()
	r := settings{}.run(t, append(enrichFlags("nats://"+freeAddress(t)), "--resume-after", "1")...)
	if r.code == exitOK || !strings.Contains(r.stderr, "connect to NATS") {
		t.Errorf("without a server (%d): %s", r.code, r.stderr)
	}
}
