package e2e

import (
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

// early is data that is put back. Rows of the database are in its table early.
type early struct {
	snapshots map[string]natstest.Snapshot // by stream
	folders   []string                     // copies of the servers' folders
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
	s.faults = s.doctorFaults(t, s.url)
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
		s.db.Exec(t, "CREATE TABLE early AS SELECT * FROM leaf_alloc")
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

func (s *restoreSite) backUp(t *testing.T) {
	t.Helper()
	s.backups = append(s.backups, filepath.Join(s.t.TempDir(), "backup"))
	s.mustRun(t, "backup", s.backups[len(s.backups)-1], "--server", s.url)
}

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
		found := s.doctorFaults(t, s.url)
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
