package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestRestores: data of an installation under load is lost or put back, and a
// backup is restored, again and again: twenty times in a soak. Every second
// restore is killed at a random moment, and repeated. No ID comes twice, the
// strict tag's stay in order, the Go client reports no error, all processes serve
// again without a restart, and the installation has all that the backup has.
func TestRestores(t *testing.T) {
	t.Parallel()
	for _, site := range []struct {
		name    string
		servers int // 0: embedded
		find    func(testing.TB) *dbtest.DB
		soak    bool
	}{
		{name: "one server, JetStream", servers: 1},
		{name: "one server, MariaDB", servers: 1, find: mariaDB},
		{name: "one server, PostgreSQL", servers: 1, find: postgres, soak: true},
		{name: "embedded server, JetStream", soak: true},
		{name: "three servers, JetStream", servers: 3, soak: true},
	} {
		t.Run(site.name, func(t *testing.T) {
			t.Parallel()
			if site.soak {
				tier.Soak(t)
			}
			var db *dbtest.DB
			if site.find != nil {
				db = site.find(t)
			}
			s := startRestoreSite(t, site.servers, db)
			for round := range tier.Pick(2, 20) {
				l := s.draw()
				if !t.Run(fmt.Sprintf("%d %s", round+1, l.name), func(t *testing.T) { s.round(t, l, round%2 == 1) }) {
					return
				}
			}
			s.finish(t)
		})
	}
}

// round loses data, and restores it. Tags that are younger than the backup come
// back, because workers hold them, unless the server was away or their rows are
// gone, too.
func (s *restoreSite) round(t *testing.T, l loss, killed bool) {
	users, backup := s.use(t), s.backups[s.random.IntN(len(s.backups))]
	trend, strict := s.create(t)
	last, list := s.take(t, strict), backedUp(t, backup)
	younger := !s.offline(l) && (l.rows == nil || l.alone)
	if younger {
		list += fmt.Sprintf("%s 200 1\n%s 1000 1 strict\n", trend, strict)
	}
	s.lose(t, l)
	switch {
	case s.offline(l):
	case l.folders != kept: // the command asks who is connected again
		s.stopped(t, trend)
		stats(t, s.js.Conn(), 3)
	case len(l.deleted)+len(l.putBack) > 0 && s.random.IntN(2) == 0:
		s.stopped(t, trend)
	}
	s.restore(t, l, backup, killed)
	users.more(100)
	users.finish()
	if younger {
		s.take(t, trend)
		if id := s.take(t, strict); id <= last {
			t.Errorf("OUT OF ORDER: %d of tag %s after %d", id, strict, last)
		}
	}
	s.resumes(t)
	if l.folders != kept {
		fourth := s.startWorker(t, s.url, append(folderSteps, "--role", "worker")...)
		s.services.more(20)
		fourth.stop(syscall.SIGTERM)
	}
	s.whole(t, list)
	for _, tag := range []string{trend, strict} { // later backups have them as removed
		if r := s.run(t, "tag", "rm", tag, "--yes", "--server", s.url); r.code != exitOK && (younger || r.code != exitNoTag) {
			t.Errorf("remove tag %s: exit code %d: %s", tag, r.code, r.stderr)
		}
	}
	if s.random.IntN(4) == 0 {
		s.backUp(t)
	}
}

// loss is what becomes of an installation's data.
type loss struct {
	name    string
	deleted []string // streams
	putBack []string // streams
	folders folders
	rows    []string // statements of a transaction in the database
	alone   bool     // the register may be whole
}

// folders are what becomes of the folders of the NATS servers.
type folders int

const (
	kept folders = iota
	emptied
	aged // they are old copies
)

var both = []string{registerBucket, configBucket}

// losses are what may become of JetStream.
var losses = []loss{
	{name: "register and configuration deleted", deleted: both},
	{name: "register deleted", deleted: both[:1]},
	{name: "register put back", putBack: both[:1]},
	{name: "register and configuration put back", putBack: both},
	{name: "register put back, configuration deleted", putBack: both[:1], deleted: both[1:]},
	{name: "all data put back", folders: aged},
	{name: "all data lost", folders: emptied},
}

// rowLosses are what may become of the database, too.
var rowLosses = []loss{
	{name: "no row"},
	{name: "the row of a tag deleted", rows: []string{"DELETE FROM leaf_alloc WHERE biz_tag = 'order'"}, alone: true},
	{name: "all rows deleted", rows: []string{"DELETE FROM leaf_alloc"}},
	{name: "the database put back", rows: []string{"DELETE FROM leaf_alloc", "INSERT INTO leaf_alloc SELECT * FROM early"}},
}

// draw chooses a loss. Only a soak waits until workers may start after the clock
// bucket was lost; TestClusterLosesAllServers does so, too.
func (s *restoreSite) draw() loss {
	l := losses[s.random.IntN(tier.Pick(len(losses)-1, len(losses)))]
	if s.db == nil {
		return l
	}
	r := rowLosses[s.random.IntN(len(rowLosses))]
	if r.alone && s.random.IntN(2) == 0 {
		return r
	}
	l.name, l.rows, l.alone = l.name+", "+r.name, r.rows, r.alone
	return l
}

// lose loses data.
func (s *restoreSite) lose(t *testing.T, l loss) {
	t.Helper()
	for _, stream := range l.deleted {
		if err := s.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	for _, stream := range l.putBack {
		s.early.snapshots[stream].Restore(t, s.js.Conn())
	}
	if l.folders != kept {
		s.whileStopped(t, func(i int, folder string) error {
			err := os.RemoveAll(folder)
			if l.folders == aged {
				err = errors.Join(err, os.CopyFS(folder, os.DirFS(s.early.folders[i])))
			}
			return err
		})
		if s.host == nil {
			s.startServers(t)
		}
	}
	if l.rows == nil {
		return
	}
	tx, err := s.db.SQL().BeginTx(t.Context(), nil)
	for _, statement := range l.rows {
		if err == nil {
			_, err = tx.ExecContext(t.Context(), statement)
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stopped waits until all loaders have noticed a loss. Nothing is granted from
// then on, workers serve a tag from memory, and readiness names the remedy.
func (s *restoreSite) stopped(t *testing.T, tag string) {
	t.Helper()
	granted := func() (n float64) {
		for _, address := range s.loaders {
			n += metricsOf(t, address).sum("idworker_store_granted_total")
		}
		return n
	}
	for _, address := range s.loaders {
		natstest.Eventually(t, "a loader grants nothing any more, and names the remedy", func() bool {
			code, body := fetch(t, address, "/readyz")
			return metricsOf(t, address).get("idworker_store_stopped") == 1 && strings.Contains(body, remedy) && (s.host != nil || code == http.StatusServiceUnavailable)
		})
	}
	before := granted()
	for range 20 {
		s.take(t, tag)
	}
	if after := granted(); after != before {
		t.Errorf("%v ranges were granted meanwhile", after-before)
	}
}

// restore restores a backup, and does what the command orders.
func (s *restoreSite) restore(t *testing.T, l loss, backup string, killed bool) {
	t.Helper()
	args, commands, longest := []string{"restore", backup, "--yes", "--server", s.url}, 1+s.random.IntN(2), 6*time.Second
	if s.offline(l) {
		args, commands, longest = []string{"restore", backup, "--yes", "--data", s.folders[0]}, 1, time.Second
	}
	if l.folders == aged {
		args = append(args, "--raise-anyway")
	}
	began := time.Now()
	if killed {
		moment, p := time.Duration(s.random.Int64N(int64(longest))), s.launch(t, args...)
		select {
		case <-time.After(moment):
			s.kills++
		case <-p.ended:
		}
		p.kill()
		t.Logf("killed after %v: %s", moment, p.stdout.String())
		commands = 1
	}
	printed, code := "", exitTryLater
	natstest.Eventually(t, "the restore succeeds", func() bool {
		printed, code = s.attempt(t, commands, args...)
		return code == exitOK || code == exitFailure && !killed
	})
	if s.took = append(s.took, time.Since(began)); code != exitOK {
		t.Fatal("the restore failed")
	}
	if s.offline(l) {
		s.startServers(t)
	}
	if found := waitFor.FindStringSubmatch(printed); found != nil {
		wait, err := time.ParseDuration(found[1])
		if err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the lost time is past", func() bool { return time.Since(began) > wait })
		config, err := s.js.KeyValue(t.Context(), "ids_config")
		if err == nil {
			err = config.Delete(t.Context(), "clock_id")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if l.folders == emptied && s.host == nil {
		s.provision(t)
	}
}

// attempt runs so many commands at the same time. It returns what one of those
// printed that succeeded, or the exit code of a failure that may pass.
func (s *restoreSite) attempt(t *testing.T, commands int, args ...string) (printed string, code int) {
	t.Helper()
	var all []*process
	for range commands {
		all = append(all, s.launch(t, args...))
	}
	code = exitFailure
	for _, p := range all {
		if ended := p.wait(); ended == exitOK {
			printed, code = p.stdout.String(), ended
		} else if ended == exitTryLater && code == exitFailure {
			code = ended
		}
		t.Logf("%s%s", p.stdout.String(), p.stderr.String())
	}
	return printed, code
}

// offline reports whether a loss is restored while the embedded server is
// stopped.
func (s *restoreSite) offline(l loss) bool { return s.host != nil && l.folders != kept }
