package e2e

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestClockBucketLost: the clock bucket of three servers is lost. Workers refuse to
// serve until an operator has decided, which the refusal explains. Then they have
// worker IDs of the lower half at once; one that is configured with a worker ID of
// the upper half waits for the declared outage, and status shows until when.
func TestClockBucketLost(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t, 3, syncAlways)
	js := natstest.JetStream(t, cluster.Connect(t))
	url := cluster.Servers[0].URL()
	must(t, "provision", "--server", url, "--part", "ids", "--replicas", "3")
	layout := snowflake.Default()
	half := (layout.MaxWorkerID() + 1) / 2
	client := newHTTPClient(t)
	startTwo := func() (workers []*process, ids []int64) {
		t.Helper()
		for range 2 {
			api := freeport.Address(t)
			workers = append(workers, startWorker(t, url, "--role", "worker", "--api", api))
			natstest.Eventually(t, "the worker has a worker ID", func() bool {
				id, err := snowflakeByHTTP(t, client, api)
				if err == nil {
					ids = append(ids, layout.WorkerID(snowflake.ID(id)))
				}
				return err == nil
			})
		}
		return workers, ids
	}
	workers, ids := startTwo()
	for i, w := range workers {
		if ids[i] < half {
			t.Errorf("worker ID %d, want one of the upper half, which outlives JetStream", ids[i])
		}
		w.stop(syscall.SIGTERM)
	}
	if err := js.DeleteStream(t.Context(), clockBucket); err != nil {
		t.Fatal(err)
	}
	provision := []string{"provision", "--server", url, "--part", "ids", "--replicas", "3"}
	for _, command := range [][]string{provision, {"serve", "--server", url, "--role", "worker"}} {
		r := run(t, command...)
		if r.code == exitOK || !strings.Contains(r.stderr, "bucket ids_clock is missing, but was in use before") || !strings.Contains(r.stderr, "delete key clock_id") {
			t.Errorf("%v without the clock bucket: exit code %d: %s", command, r.code, r.stderr)
		}
	}
	config, err := js.KeyValue(t.Context(), "ids_config") // what was issued is in the past: the workers gave the rest back
	if err == nil {
		err = config.Delete(t.Context(), "clock_id")
	}
	if err != nil {
		t.Fatal(err)
	}
	must(t, provision...)
	decided := time.Now()
	if workers, ids = startTwo(); ids[0] >= half || ids[1] >= half || ids[0] == ids[1] {
		t.Errorf("worker IDs %v, want two of the lower half", ids)
	}
	waiting := startWorker(t, url, "--role", "worker", "--worker-id", "600")
	var said string
	natstest.Eventually(t, "status shows until when the configured worker ID is reserved", func() bool {
		said = must(t, "status", "--server", url).stdout
		return reservedUntil.MatchString(said)
	})
	until, err := time.Parse(time.RFC3339, reservedUntil.FindStringSubmatch(said)[1])
	if wait := until.Sub(decided); err != nil || wait < time.Hour || wait > time.Hour+natstest.Patience {
		t.Errorf("reserved for %v after the decision, %v, want an hour and a few seconds:\n%s", wait, err, said)
	}
	for _, w := range append(workers, waiting) {
		w.stop(syscall.SIGTERM)
	}
}

var reservedUntil = regexp.MustCompile(`worker ID 600 is reserved until (\S+)`)
