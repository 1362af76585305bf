package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestRaise: all tags are raised at awkward moments, of a trend tag and a strict
// tag under load. No ID comes twice, the strict tag's stay in order, and both
// loaders grant again without a restart.
func TestRaise(t *testing.T) {
	t.Parallel()
	s := startRegisterSite(t)
	must(t, "tag", "create", "--server", s.net.URL(), strictTag, "--step", "10", "--order", "strict")
	strict := startStrictCallers(t, s.net.URL(), 2)
	raised := func(what string, f func(*testing.T)) {
		t.Run(what, func(t *testing.T) {
			f(t)
			strict.more(20)
			s.resumes(t)
		})
	}
	for round := range tier.Pick(1, 20) {
		raised(fmt.Sprintf("by two commands, %d", round+1), s.raisedByTwo)
	}
	raised("and killed in the middle", s.raiseKilled)
	strict.finish()
	s.load.finish()
	strict.check()
	s.load.ledgers.check(t)
}

// raisedByTwo runs two commands at the same time. Both end, and at least one
// succeeds.
func (s *registerSite) raisedByTwo(t *testing.T) {
	raise := []string{"tag", "raise", "--all", "--yes", "--server", s.net.URL()}
	commands := []*process{settings{}.launch(t, raise...), settings{}.launch(t, raise...)}
	succeeded := 0
	for _, p := range commands {
		switch code := p.wait(); {
		case code == exitOK:
			succeeded++
		case !strings.Contains(p.stderr.String(), "another command is raising all tags"):
			t.Errorf("exit code %d: %s", code, p.stderr.Tail())
		}
	}
	if succeeded == 0 {
		t.Error("neither command succeeded")
	}
}

// raiseKilled kills the command after its first lift. Nothing is granted until
// it runs again.
func (s *registerSite) raiseKilled(t *testing.T) {
	const tags = 5_000
	var list strings.Builder
	for i := range tags {
		fmt.Fprintf(&list, "many.%d 1000 %d\n", i, i+1)
	}
	settings{stdin: list.String()}.mustRun(t, "tag", "import", "--server", s.net.URL())
	register, err := s.js.KeyValue(t.Context(), "ids_register")
	if err != nil {
		t.Fatal(err)
	}
	written := func() uint64 {
		entry, err := register.Get(t.Context(), "many.0")
		if err != nil {
			t.Fatal(err)
		}
		return entry.Revision()
	}
	for tries, middle := 0, false; !middle; tries++ {
		if tries == 10 {
			t.Fatal("no mark is left of a raise that was killed")
		}
		before := written()
		command := settings{}.launch(t, "tag", "raise", "--all", "--yes", "--server", s.net.URL())
		natstest.Eventually(t, "a tag is raised", func() bool { return written() > before || command.hasEnded() })
		command.kill()
		stream, err := s.js.Stream(t.Context(), registerBucket)
		if err != nil {
			t.Fatal(err)
		}
		middle = stream.CachedInfo().Config.Metadata["idworker_raising"] != "" // or it has ended before
	}
	for _, address := range s.status {
		natstest.Eventually(t, "a loader grants nothing any more", func() bool {
			return metricsOf(t, address).get("idworker_store_stopped") == 1
		})
	}
	first := raiseAll(t, "--server", s.net.URL())
	raised := 0
	for _, line := range must(t, "tag", "export", "--server", s.net.URL()).lines() {
		if f := strings.Fields(line); strings.HasPrefix(line, "many.") {
			if next, err := strconv.ParseInt(f[2], 10, 64); err != nil || next < first {
				t.Fatalf("not raised to %d: %s", first, line)
			}
			raised++
		}
	}
	if raised != tags {
		t.Errorf("%d tags are exported, want %d", raised, tags)
	}
}

// installation is what an installation without data folders keeps: copies of
// its register and its configuration, at a time when it was young.
type installation struct {
	url     string
	js      jetstream.JetStream
	backups []natstest.Snapshot
	ledgers ledgers
}

func newInstallation(t *testing.T, tags ...string) *installation {
	t.Helper()
	net := natstest.Start(t)
	return &installation{url: net.URL(), js: natstest.JetStream(t, net.Connect(t)), ledgers: newLedgers(tags)}
}

func (i *installation) backUp(t *testing.T) {
	t.Helper()
	for _, stream := range []string{registerBucket, configBucket} {
		i.backups = append(i.backups, natstest.TakeSnapshot(t, i.js.Conn(), stream))
	}
}

func (i *installation) restore(t *testing.T) {
	t.Helper()
	for _, backup := range i.backups {
		backup.Restore(t, i.js.Conn())
	}
}

// take takes an ID of each tag, or more, and checks them.
func (i *installation) take(t *testing.T, n int64) (highest int64) {
	t.Helper()
	client := dial(t, i.url)
	defer client.conn.Close()
	for tag, l := range i.ledgers {
		ranges := client.get(t, tag, n)
		l.add(ranges)
		highest = max(highest, ranges[len(ranges)-1].Last)
	}
	i.ledgers.check(t)
	return highest
}

// TestRaiseByFreshProcesses: register and configuration are restored from the
// same early copies three times, and raised. All processes were killed before,
// so nothing is left that knows the IDs granted since, or an earlier raise. One
// tag was begun above the time.
func TestRaiseByFreshProcesses(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "order", "old")
	serve := func() *process { return startWorker(t, i.url, folderSteps...) }
	live := func() {
		t.Helper()
		p := serve()
		i.take(t, 1)
		p.kill()
	}
	must(t, "provision", "--server", i.url, "--part", "ids")
	must(t, "tag", "create", "--server", i.url, "order", "--step", "10")
	must(t, "tag", "create", "--server", i.url, "old", "--first", "1700000000000000000")
	live()
	i.backUp(t)
	for range 3 {
		for range tier.Pick(2, 63) {
			live()
		}
		i.restore(t)
		raiseAll(t, "--server", i.url)
		live()
	}
	p := serve()
	i.take(t, 100)
	p.stop(syscall.SIGTERM)
}

// TestRaiseUnderLargeSegments: after a raise, workers reserve more IDs than
// microseconds pass. Then register and configuration are restored, so that only
// the workers know the raise and the segments, and raised again.
func TestRaiseUnderLargeSegments(t *testing.T) {
	t.Parallel()
	const million = 1_000_000
	i := newInstallation(t, "order")
	serve := func(role string) {
		t.Helper()
		startWorker(t, i.url, "--role", role, "--max-step", strconv.Itoa(million), "--max-batch", strconv.Itoa(million))
	}
	serve("loader")
	create := []string{"tag", "create", "--server", i.url, "order", "--step", strconv.Itoa(million)}
	must(t, create...)
	i.backUp(t)
	raiseAll(t, "--server", i.url)
	for range 3 {
		serve("worker")
	}
	for i.take(t, million) < time.Now().Add(5*time.Second).UnixMicro() {
	}
	i.restore(t)
	raiseAll(t, "--server", i.url)
	for range 10 {
		i.take(t, million)
	}
}
