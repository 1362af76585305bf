package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// restores returns how often an installation is restored. IDWORKER_RESTORES
// sets it, and then all combinations are tried.
func restores() (rounds int, all bool) {
	if n, err := strconv.Atoi(os.Getenv("IDWORKER_RESTORES")); err == nil {
		return n, true
	}
	return 2, false
}

// backedUp is an installation under load with a backup of its youth.
type backedUp struct {
	url      string
	js       jetstream.JetStream
	settings            // name the store
	db       *dbtest.DB // nil: JetStream
	dumps    [][]string // rows of the database, before and after tags were created
	workers  int
	loaders  []string // where they serve HTTP
	random   *rand.Rand

	dir     string              // of the backup
	early   []natstest.Snapshot // of the same time
	printed string              // by the latest restore
	took    []time.Duration     // by restores

	load     *callers
	strict   *strictCallers
	services *services
	names    []string // tags that a template has made
	named    ledgers  // of those
}

// startBackedUp starts two loaders and three workers, and callers of a trend
// tag, a strict tag and a template's tags, and then takes the backup.
func startBackedUp(t *testing.T, start func(*testing.T, *backedUp), db *dbtest.DB) *backedUp {
	t.Helper()
	b := &backedUp{db: db, random: seeded(t), workers: 3, dir: filepath.Join(t.TempDir(), "backup"), named: make(ledgers)}
	if db != nil {
		b.settings = on(db.DSN())
	}
	start(t, b)
	b.dump(t)
	list := fmt.Sprintf("chat.* 10 trend 0 1000 1\norder 10 1\nservice 20 1\n%s 10 1 strict\n", strictTag)
	settings{stdin: list, env: b.env}.mustRun(t, "tag", "import", "--server", b.url)
	b.load = startCallers(t, b.url, load{callers: 3, tags: []string{"order"}, maxBatch: 50, timeout: askAgain, retry: lost})
	b.strict = startStrictCallers(t, b.url, 2)
	b.services = startServices(t, b.url, "service", 2, nats.MaxReconnects(-1))
	b.resumes(t)
	b.mustRun(t, "backup", b.dir, "--server", b.url)
	b.dump(t)
	for _, stream := range []string{registerBucket, configBucket} {
		b.early = append(b.early, natstest.TakeSnapshot(t, b.js.Conn(), stream))
	}
	return b
}

// dump notes the rows of the database.
func (b *backedUp) dump(t *testing.T) {
	t.Helper()
	if b.db == nil {
		return
	}
	found, err := b.db.SQL().QueryContext(t.Context(), "SELECT biz_tag, max_id, step FROM leaf_alloc")
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
	b.dumps = append(b.dumps, rows)
}

// putDatabaseBack restores a dump.
func (b *backedUp) putDatabaseBack(t *testing.T, rows []string) {
	t.Helper()
	tx, err := b.db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.ExecContext(t.Context(), "DELETE FROM leaf_alloc")
	if err == nil && len(rows) > 0 {
		_, err = tx.ExecContext(t.Context(), "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES "+strings.Join(rows, ", "))
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// losses are what may become of the register and the configuration.
var losses = []struct {
	name string
	dump int // of the database that is restored too
	lose func(*backedUp, *testing.T)
}{
	{"register and configuration deleted", 1, func(b *backedUp, t *testing.T) { b.remove(t, registerBucket, configBucket) }},
	{"register put back", 0, func(b *backedUp, t *testing.T) { b.early[0].Restore(t, b.js.Conn()) }},
	{"register deleted", 0, func(b *backedUp, t *testing.T) { b.remove(t, registerBucket) }},
	{"register and configuration put back", 1, func(b *backedUp, t *testing.T) {
		for _, s := range b.early {
			s.Restore(t, b.js.Conn())
		}
	}},
	{"register put back, configuration deleted", 1, func(b *backedUp, t *testing.T) {
		b.remove(t, configBucket)
		b.early[0].Restore(t, b.js.Conn())
	}},
}

func (b *backedUp) remove(t *testing.T, streams ...string) {
	t.Helper()
	for _, stream := range streams {
		if err := b.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
}

// restore restores the backup.
func (b *backedUp) restore(t *testing.T) {
	t.Helper()
	began := time.Now()
	r := b.mustRun(t, "restore", b.dir, "--yes", "--server", b.url)
	b.took = append(b.took, time.Since(began))
	b.printed = r.stdout
	if strings.Contains(r.stdout, "kept: ") {
		t.Logf("restore says:\n%s", r.stdout)
	}
}

// stopped waits until all loaders have noticed a loss.
func (b *backedUp) stopped(t *testing.T) {
	t.Helper()
	for _, address := range b.loaders {
		natstest.Eventually(t, "a loader grants nothing any more", func() bool { return metricsOf(t, address).get("idworker_store_stopped") == 1 })
	}
}

// use starts a caller of all tags that the template has made so far.
func (b *backedUp) use(t *testing.T) *callers {
	t.Helper()
	users := startCallers(t, b.url, load{callers: 1, tags: b.names, maxBatch: 20, timeout: askAgain, retry: lost, into: b.named})
	users.more(100)
	return users
}

// resumes waits until all callers are served, each loader grants again, and each
// worker has IDs of a new tag. No ID has come twice by then.
func (b *backedUp) resumes(t *testing.T) {
	t.Helper()
	b.load.more(1000)
	b.strict.more(20)
	b.services.more(20)
	for _, address := range b.loaders {
		natstest.Eventually(t, "a loader is ready", func() bool {
			code, _ := fetch(t, address, "/readyz")
			return code == http.StatusOK
		})
	}
	name := fmt.Sprintf("chat.%d", len(b.names))
	heldByAll(t, b.url, name, b.workers)
	b.names, b.named[name] = append(b.names, name), &ledger{tag: name}
	b.check(t)
}

func (b *backedUp) check(t *testing.T) {
	t.Helper()
	b.load.ledgers.check(t)
	b.named.check(t)
	b.services.ledger.check(t)
}

// finish ends the load, and checks all IDs.
func (b *backedUp) finish(t *testing.T) {
	t.Helper()
	b.load.finish()
	b.strict.finish()
	b.services.finish()
	b.check(t)
	b.strict.check()
	b.services.snowflakes.check(t)
	t.Logf("%d IDs of order, %d of %d tags of the template; restores took %v", b.load.ledgers.ids(), b.named.ids(), len(b.names), b.took)
}

// whole checks that the strict tag is there again, and strict.
func (b *backedUp) whole(t *testing.T) {
	t.Helper()
	strict := "missing"
	for _, line := range b.mustRun(t, "tag", "export", "--server", b.url).lines() {
		if strings.HasPrefix(line, strictTag+" ") {
			strict = line
		}
	}
	if !strings.HasSuffix(strict, " strict") || strings.Contains(strict, " removed ") {
		kv, _ := b.js.KeyValue(t.Context(), "ids_register")
		e, err := kv.Get(t.Context(), strictTag)
		t.Errorf("the strict tag: %s, entry %s %v; restore printed:\n%s", strict, e.Value(), err, b.printed)
	}
}

// embeddedSite has a server in one of its processes.
func embeddedSite(t *testing.T, b *backedUp) {
	address := freeport.Address(t)
	server := b.startServer(t, filepath.Join(t.TempDir(), "data"), append(folderSteps, "--http", address)...)
	b.url, b.js, b.loaders = server.url, natstest.JetStream(t, connect(t, server.url)), []string{address}
	b.serve(t, 1, 2)
}

func serverSite(t *testing.T, b *backedUp) {
	net := natstest.Start(t)
	b.url, b.js = net.URL(), natstest.JetStream(t, net.Connect(t))
	b.serve(t, 2, 3)
}

func clusterSite(t *testing.T, b *backedUp) {
	c := natstest.StartCluster(t, 3)
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	b.url, b.js = strings.Join(urls, ","), natstest.JetStream(t, c.Connect(t))
	must(t, "provision", "--server", b.url, "--replicas", "3")
	b.serve(t, 2, 3)
}

// serve starts loaders and workers.
func (b *backedUp) serve(t *testing.T, loaders, workers int) {
	t.Helper()
	var all []*process
	start := func(args ...string) {
		all = append(all, b.launch(t, slices.Concat([]string{"serve", "--server", b.url}, folderSteps, args)...))
	}
	for range loaders {
		address := freeport.Address(t)
		b.loaders = append(b.loaders, address)
		start("--role", "loader", "--http", address)
	}
	for range workers {
		start("--role", "worker")
	}
	for _, p := range all {
		p.serving()
	}
}

// TestRestore: register and configuration are lost or put back under load, in
// some rounds the database too, and the early backup is restored. No ID comes
// twice, the strict tag's stay in order, the Go client reports no error, and all
// processes serve again without a restart.
func TestRestore(t *testing.T) {
	t.Parallel()
	rounds, all := restores()
	for i, run := range []struct {
		site, store string
		start       func(*testing.T, *backedUp)
		onDemand    bool // TestClusterLosesAllServers restores three servers, too
	}{
		{site: "one server", store: mariaDB, start: serverSite},
		{site: "embedded", store: jetStream, start: embeddedSite},
		{site: "one server", store: both, start: serverSite},
		{site: "embedded", store: mariaDB, start: embeddedSite, onDemand: true},
		{site: "three servers", store: jetStream, start: clusterSite, onDemand: true},
		{site: "three servers", store: both, start: clusterSite, onDemand: true},
	} {
		if run.onDemand && !all {
			continue
		}
		t.Run(run.site+", "+run.store, func(t *testing.T) {
			t.Parallel()
			var db *dbtest.DB
			if run.store != jetStream {
				db = databases[0].with(t)
				db.Exec(t, "ALTER TABLE leaf_alloc MODIFY biz_tag VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''") // templates need it
			}
			b := startBackedUp(t, run.start, db)
			for round := range rounds {
				loss := losses[(rounds*i+round)%len(losses)]
				t.Run(fmt.Sprintf("%d %s", round+1, loss.name), func(t *testing.T) {
					users := b.use(t)
					loss.lose(b, t)
					if b.random.IntN(2) == 0 {
						b.stopped(t)
					}
					if run.store == both {
						b.putDatabaseBack(t, b.dumps[loss.dump])
					}
					b.restore(t)
					users.more(100)
					users.finish()
					b.resumes(t)
					b.whole(t)
				})
			}
			b.finish(t)
		})
	}
}

// The stores of an installation that is restored.
const jetStream, mariaDB, both = "JetStream", "MariaDB", "MariaDB restored too"
