package e2e

import (
	"path/filepath"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
)

// TestTwoHistories: the register is put back under load, and the loader that
// remembers what was lost is killed. A new loader has no witness, and all workers
// are cut off while it starts, so it grants once more what they hold already. It
// stops when they are back, and the operator raises all tags. From the moment at
// which the command has succeeded, no worker hands out an ID of either history,
// and every tag is served.
//
// The new loader serves a worker that was not there before, so two workers hold
// the same IDs of each tag when the command is run.
func TestTwoHistories(t *testing.T) {
	t.Parallel()
	s := startRaiseSite(t, settings{})
	hot, cold := []string{"hot.1", "hot.2", "hot.3"}, []string{"cold.1", "cold.2"} // cold ones last in buffers
	tags := append(cold, hot...)
	for _, tag := range tags {
		must(t, "tag", "create", "--server", s.net.URL(), tag, "--step", "5000")
	}
	s.ask(t, 6, hot...)
	backup := filepath.Join(t.TempDir(), "backup")
	s.copyData(t, backup, s.data)
	link := proxy.Start(t, s.net.URL())
	workers := []*process{settings{}.startWorkerVia(t, link.URL()), settings{}.startWorkerVia(t, link.URL())}
	s.heldByAll(t, workers, tags...)
	moreGrants(t, s.js)
	s.copyData(t, s.data, backup)
	natstest.Eventually(t, "the loader grants nothing any more", func() bool {
		return s.loader.says("register regressed; granting stopped") > 0
	})
	s.loader.kill()

	link.Refuse()
	s.startLoader()
	s.heldByAll(t, s.startWorkers(1), tags...)
	moreGrants(t, s.js)
	link.Accept()
	natstest.Eventually(t, "the new loader hears of what was lost", func() bool {
		return s.loader.says("register regressed; granting stopped") > 0
	})
	s.answer(t, workers...)
	if s.repeated() == 0 {
		t.Fatal("no ID came twice before the raise, so the register has one history")
	}
	raiseAll(t, "--server", s.net.URL())
	s.succeed(t)
	s.served(t, tags...)
	s.finish()
	s.check(t)
}

// TestStrictAgain: a strict tag is younger than the copy of the register that
// the operator has put back. Its row is still in the table, so it counts as trend,
// and workers hold buffers of it. A backup knows that it is strict. From the
// success of the restore on, its IDs ascend, although workers were not told about
// the decision while it was made: the restore was killed, and run again, or a
// worker was cut off throughout.
func TestStrictAgain(t *testing.T) {
	t.Parallel()
	db := databases[0].with(t)
	s := startRaiseSite(t, on(db.DSN()))
	near, far := s.net.URL(), proxy.Start(t, s.net.URL())
	workers := s.startWorkers(1)
	for _, way := range []struct {
		name   string
		killed string // the restore, before it sends this text
		tag    string
	}{
		{"killed before the decision", "PUB $KV.ids_config.floor ", "bill.1"},
		{"killed before the decision is announced", "PUB $KV.ids_config.decided ", "bill.2"},
		{"a worker is cut off", "", "bill.3"},
	} {
		t.Run(way.name, func(t *testing.T) {
			backup, old := filepath.Join(t.TempDir(), "backup"), natstest.TakeSnapshot(t, s.js.Conn(), registerBucket)
			s.mustRun(t, "tag", "create", "--server", near, way.tag, "--order", "strict")
			s.served(t, way.tag)
			s.mustRun(t, "backup", backup, "--server", near)
			s.loader.kill()
			kill(workers) // nobody is left who remembers
			old.Restore(t, s.js.Conn())
			s.startLoader()
			workers = append(s.startWorkers(1), settings{}.startWorkerVia(t, far.URL()))
			s.heldByAll(t, workers, way.tag)

			if way.killed == "" {
				far.Refuse()
			} else {
				via := proxy.Start(t, near)
				s.killBefore(t, via, way.killed, "restore", backup, "--yes", "--server", via.URL())
			}
			s.mustRun(t, "restore", backup, "--yes", "--server", near)
			s.succeed(t)
			if way.killed == "" {
				far.Accept()
			}
			s.served(t, way.tag)
			s.answer(t, workers...)
			s.served(t, way.tag)
			s.check(t, way.tag)
		})
	}
}
