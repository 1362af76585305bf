package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// restoreSite is an installation under load whose data is lost and restored
// again and again.
type restoreSite struct {
	t        *testing.T // with which its processes and folders end
	settings            // name the store
	random   *rand.Rand
	url      string
	js       jetstream.JetStream
	folders  []string // of the NATS servers' data
	replicas int
	cluster  natstest.Cluster // the NATS servers, unless one is embedded
	embedded []string         // arguments of serve with the embedded server
	host     *process         // which is this one
	db       *dbtest.DB       // nil: JetStream
	loaders  []string         // where they serve HTTP

	backups []string // folders, the oldest first
	faults  []string // that doctor found at the beginning
	early   early    // data of the time of the oldest backup
	took    []time.Duration
	kills   int // of restores

	client   requester
	load     *callers
	strict   *strictCallers
	services *services
	names    []string // tags that the template has made
	named    ledgers  // of those, and of tags that are younger than the backup
}

// early is data that is put back.
type early struct {
	snapshots map[string]natstest.Snapshot // by stream
	folders   []string                     // copies of the servers' folders
	rows      string                       // of the database, as INSERT takes them
}

// listRestored are the tags and the template of the site, as tag import reads
// them.
const listRestored = `chat.* 10 trend 0 1000 1
old removed 500
order 10 1
service 20 1
` + strictTag + ` 10 1 strict
`

// startRestoreSite starts loaders, three workers, and callers of a trend tag, a
// strict tag, a template's tags and snowflake IDs. Then it takes the backup, and
// copies of the data for later.
func startRestoreSite(t *testing.T, servers int, db *dbtest.DB) *restoreSite {
	t.Helper()
	s := &restoreSite{t: t, random: seeded(t), db: db, named: make(ledgers), replicas: max(servers, 1)}
	if db != nil {
		s.settings = on(db.DSN())
	}
	s.env = append(s.env, "IDWORKER_LEASE_TTL=15s") // the shortest: a worker ID that was lost is free after it
	keepFolder := func(o *server.Options) { s.folders = append(s.folders, o.StoreDir) }
	switch servers {
	case 0:
		s.startEmbedded(t)
		s.serve(t, 1, 2)
	case 1:
		s.cluster.Servers = []*natstest.Node{natstest.Start(t, keepFolder)}
	default:
		s.cluster = *natstest.StartCluster(t, servers, keepFolder)
	}
	if servers > 0 {
		var urls []string
		for _, n := range s.cluster.Servers {
			urls = append(urls, n.URL())
		}
		s.url, s.js = strings.Join(urls, ","), natstest.JetStream(t, s.cluster.Connect(t))
		s.provision(t)
		s.serve(t, 2, 3)
	}
	settings{stdin: listRestored, env: s.env}.mustRun(t, "tag", "import", "--server", s.url)
	s.client = dial(t, s.url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	s.load = startCallers(t, s.url, load{callers: 3, tags: []string{"order"}, maxBatch: 50, timeout: askAgain, retry: lost})
	s.strict = startStrictCallers(t, s.url, 2, nats.MaxReconnects(-1))
	s.services = startServices(t, s.url, "service", 2, nats.MaxReconnects(-1))
	s.resumes(t)
	s.backUp(t)
	s.keepEarly(t)
	s.resumes(t)
	s.faults = s.settings.faults(t, s.url)
	return s
}

// startEmbedded starts a process with a server in it.
func (s *restoreSite) startEmbedded(t *testing.T) {
	t.Helper()
	listen, address, data := freeport.Address(t), freeport.Address(t), filepath.Join(t.TempDir(), "data")
	s.folders, s.loaders, s.url = []string{data}, []string{address}, "nats://"+listen
	s.embedded = append([]string{"serve", "--listen", listen, "--data", data, "--http", address}, folderSteps...)
	s.host = s.launch(t, s.embedded...)
	s.host.serving()
	s.js = natstest.JetStream(t, connect(t, s.url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond)))
}

// provision makes streams and buckets, as after a restore.
func (s *restoreSite) provision(t *testing.T) {
	t.Helper()
	s.mustRun(t, "provision", "--server", s.url, "--replicas", fmt.Sprint(s.replicas))
}

// serve starts loaders and workers.
func (s *restoreSite) serve(t *testing.T, loaders, workers int) {
	t.Helper()
	var all []*process
	start := func(args ...string) {
		all = append(all, s.launch(t, slices.Concat([]string{"serve", "--server", s.url}, folderSteps, args)...))
	}
	for range loaders {
		address := freeport.Address(t)
		s.loaders = append(s.loaders, address)
		start("--role", "loader", "--http", address)
	}
	for range workers {
		start("--role", "worker")
	}
	for _, p := range all {
		p.serving()
	}
}

// keepEarly keeps copies of all data.
func (s *restoreSite) keepEarly(t *testing.T) {
	t.Helper()
	s.early.snapshots = make(map[string]natstest.Snapshot)
	for _, stream := range []string{registerBucket, configBucket} {
		s.early.snapshots[stream] = natstest.TakeSnapshot(t, s.js.Conn(), stream)
	}
	if s.db != nil {
		s.early.rows = s.rows(t)
	}
	s.whileStopped(t, func(i int, folder string) error {
		s.early.folders = append(s.early.folders, t.TempDir())
		return os.CopyFS(s.early.folders[i], os.DirFS(folder))
	})
	s.startServers(t)
}

// whileStopped stops the servers, and changes each of their folders.
func (s *restoreSite) whileStopped(t *testing.T, change func(i int, folder string) error) {
	t.Helper()
	if s.host != nil {
		s.host.stop(syscall.SIGTERM)
	}
	for _, n := range s.cluster.Servers {
		n.Stop()
	}
	for i, folder := range s.folders {
		if err := change(i, folder); err != nil {
			t.Fatal(err)
		}
	}
}

// startServers starts the servers again.
func (s *restoreSite) startServers(t *testing.T) {
	t.Helper()
	if s.host != nil {
		if s.host = s.launch(s.t, s.embedded...); !s.host.servesOrEnds() {
			t.Fatal("the server does not serve")
		}
	}
	for _, n := range s.cluster.Servers {
		n.Restart()
	}
	if len(s.cluster.Servers) > 1 {
		s.cluster.WaitReady(t)
	}
}

// rows reads the rows of the database.
func (s *restoreSite) rows(t *testing.T) string {
	t.Helper()
	found, err := s.db.SQL().QueryContext(t.Context(), "SELECT biz_tag, max_id, step FROM leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = found.Close() }()
	var rows []string
	for found.Next() {
		var tag string
		var next, step int64
		if err := found.Scan(&tag, &next, &step); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("('%s', %d, %d)", tag, next, step))
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(rows, ", ")
}

// loss is what becomes of an installation's data.
type loss struct {
	name    string
	deleted []string // streams
	putBack []string // streams
	folders folders
	rows    string // the statement that deletes rows of the database
	old     bool   // rows take their place
	alone   bool   // the register may be whole
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
	{name: "the row of a tag deleted", rows: "DELETE FROM leaf_alloc WHERE biz_tag = 'order'", alone: true},
	{name: "all rows deleted", rows: "DELETE FROM leaf_alloc"},
	{name: "the database put back", rows: "DELETE FROM leaf_alloc", old: true},
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
	l.name, l.rows, l.old = l.name+", "+r.name, r.rows, r.old
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
	if l.rows == "" {
		return
	}
	tx, err := s.db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.ExecContext(t.Context(), l.rows)
	if err == nil && l.old {
		_, err = tx.ExecContext(t.Context(), "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES "+s.early.rows)
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
		natstest.Eventually(t, "a loader grants nothing any more", func() bool { return metricsOf(t, address).get("idworker_store_stopped") == 1 })
		if code, body := fetch(t, address, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, remedy) {
			t.Errorf("/readyz: %d %s, want 503 and %q", code, body, remedy)
		}
	}
	before := granted()
	for range 20 {
		s.take(t, tag)
	}
	if after := granted(); after != before {
		t.Errorf("%v ranges were granted meanwhile", after-before)
	}
}

func (s *restoreSite) backUp(t *testing.T) {
	t.Helper()
	s.backups = append(s.backups, filepath.Join(s.t.TempDir(), "backup"))
	s.mustRun(t, "backup", s.backups[len(s.backups)-1], "--server", s.url)
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
	printed, succeeded := "", false
	natstest.Eventually(t, "the restore succeeds", func() bool {
		printed, succeeded = s.attempt(t, commands, args...)
		return succeeded || !killed
	})
	if s.took = append(s.took, time.Since(began)); !succeeded {
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
// printed that succeeded.
func (s *restoreSite) attempt(t *testing.T, commands int, args ...string) (printed string, succeeded bool) {
	t.Helper()
	var all []*process
	for range commands {
		all = append(all, s.launch(t, args...))
	}
	for _, p := range all {
		code := p.wait()
		t.Logf("exit code %d: %s%s", code, p.stdout.String(), p.stderr.String())
		if code == exitOK {
			printed, succeeded = p.stdout.String(), true
		} else if commands > 1 && !strings.Contains(p.stderr.String(), "another command is raising all tags") {
			t.Errorf("exit code %d: %s", code, p.stderr.Tail())
		}
	}
	return printed, succeeded
}

// offline reports whether a loss is restored while the embedded server is
// stopped.
func (s *restoreSite) offline(l loss) bool { return s.host != nil && l.folders != kept }

// create creates a trend tag, of which all workers have IDs in memory, and a
// strict tag.
func (s *restoreSite) create(t *testing.T) (trend, strict string) {
	t.Helper()
	trend, strict = fmt.Sprintf("late.%d", len(s.names)), fmt.Sprintf("bill.%d", len(s.names))
	s.mustRun(t, "tag", "create", trend, "--step", "200", "--server", s.url)
	s.mustRun(t, "tag", "create", strict, "--order", "strict", "--server", s.url)
	heldByAll(t, s.url, trend, 3)
	s.named[trend], s.named[strict] = &ledger{tag: trend}, &ledger{tag: strict}
	s.take(t, strict)
	return trend, strict
}

// take takes an ID of a tag.
func (s *restoreSite) take(t *testing.T, tag string) int64 {
	t.Helper()
	ranges := s.client.get(t, tag, 1)
	s.named[tag].add(ranges)
	return ranges[0].First
}

// use starts a caller of all tags that the template has made so far.
func (s *restoreSite) use(t *testing.T) *callers {
	t.Helper()
	users := startCallers(t, s.url, load{callers: 1, tags: s.names, maxBatch: 20, timeout: askAgain, retry: lost, into: s.named})
	users.more(100)
	return users
}

// resumes waits until all callers are served, each loader grants again, and each
// worker has IDs of a new tag. No ID has come twice by then, and those of the
// strict tag are in order.
func (s *restoreSite) resumes(t *testing.T) {
	t.Helper()
	s.load.more(1000)
	s.strict.more(20)
	s.services.more(20)
	for _, address := range s.loaders {
		natstest.Eventually(t, "a loader is ready", func() bool {
			code, _ := fetch(t, address, "/readyz")
			return code == http.StatusOK
		})
	}
	name := fmt.Sprintf("chat.%d", len(s.names))
	heldByAll(t, s.url, name, 3)
	s.names, s.named[name] = append(s.names, name), &ledger{tag: name}
	s.check(t)
}

func (s *restoreSite) check(t *testing.T) {
	t.Helper()
	s.load.ledgers.check(t)
	s.named.check(t)
	s.services.ledger.check(t)
	s.strict.check()
}

// whole checks that the installation has all tags and templates of a list, and
// that doctor finds no fault.
func (s *restoreSite) whole(t *testing.T, list string) {
	t.Helper()
	lacks(t, list, s.mustRun(t, "tag", "export", "--server", s.url).stdout)
	natstest.Eventually(t, "doctor finds no fault", func() bool {
		found := s.settings.faults(t, s.url)
		return !slices.ContainsFunc(found, func(fault string) bool { return !slices.Contains(s.faults, fault) })
	})
}

// finish ends the load, and checks all IDs.
func (s *restoreSite) finish(t *testing.T) {
	t.Helper()
	s.load.finish()
	s.strict.finish()
	s.services.finish()
	s.check(t)
	s.services.snowflakes.check(t)
	t.Logf("%d IDs of order, %d of %d tags of the template; %d restores were killed; they took %v", s.load.ledgers.ids(), s.named.ids(), len(s.names), s.kills, s.took)
}

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
	younger := !s.offline(l) && (l.rows == "" || l.alone)
	if younger {
		list = s.mustRun(t, "tag", "export", "--server", s.url).stdout
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
	if s.random.IntN(4) == 0 {
		s.backUp(t)
	}
}

func mariaDB(t testing.TB) *dbtest.DB {
	t.Helper()
	db := databases[0].with(t)
	db.Exec(t, "ALTER TABLE leaf_alloc MODIFY biz_tag VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''") // templates need it
	return db
}

func postgres(t testing.TB) *dbtest.DB {
	t.Helper()
	return databases[1].with(t)
}
