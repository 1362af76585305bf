package nemesis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/worker/history"
	"github.com/idworker/idworker/worker/loadmsg"
)

// cast is all that runs.
type cast struct {
	binaries binaries
	links    map[string][]*proxy.Proxy // by whose they are
	urls     map[string][]string       // of the servers, through whose proxies
	apis     []string                  // where the workers answer HTTP, through the callers' proxies
	programs map[string]*Supervised
	cluster  *natsServers
	database *database
	cutters  map[string]*proxy.Proxy // in front of the links of some
	watchers []*nats.Conn            // to read grants
}

// binaries are the programs of the cast.
type binaries struct{ plain, race, server string }

// clock is a program's clock.
func (r *Run) clock(name string) ClockFile { return ClockFile{filepath.Join(r.work, name+".clock")} }

// build builds the programs.
func (r *Run) build() {
	overlay, err := ClockOverlay(r.work)
	r.must(err)
	build := func(name, command string, flags ...string) string {
		if r.Product != "" && command == process.Command {
			flags = append([]string{"-C", r.Product}, flags...)
		}
		path, err := process.Build(r.work, name, command, append(flags, overlay)...)
		r.must(err)
		return path
	}
	r.binaries = binaries{
		build("idworker", process.Command), build("idworker-race", process.Command, "-race"), build("nats-server", process.NATSServer),
	}
}

// must ends the test if the run cannot begin.
func (r *Run) must(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// start brings the cast onto the stage.
func (r *Run) start() {
	r.began = time.Now()
	r.links, r.urls, r.programs = make(map[string][]*proxy.Proxy), make(map[string][]string), make(map[string]*Supervised)
	r.granted = new(Granted)
	r.checker = NewJudge(snowflake.Default(), r.granted)
	r.checker.told = func(violation string) { r.Say("%6.1fs VIOLATION: %s", r.now().Seconds(), violation) }
	var err error
	r.history, err = history.Create(filepath.Join(r.folder, "history.gz"), snowflake.Default())
	r.must(err)
	r.startCluster()
	for _, name := range linked {
		for _, address := range r.cluster.addresses {
			r.urls[name] = append(r.urls[name], "nats://"+r.link(name, address))
		}
	}
	r.cutters = make(map[string]*proxy.Proxy)
	for _, name := range cut {
		r.cutters[name] = proxy.Start(r.T, r.urls[name]...)
		r.urls[name] = []string{r.cutters[name].URL()}
	}
	r.watchGrants()
	r.startPrograms()
}

// link returns the address of a proxy of an owner in front of an address.
func (r *Run) link(whose, address string) string {
	p := proxy.Start(r.T, address)
	r.links[whose] = append(r.links[whose], p)
	return p.Addr()
}

// leaseTTL is the time until a dead process's worker ID is reassigned. It may
// not be shorter.
const leaseTTL = "15s"

// startPrograms starts idworker, in all its roles.
func (r *Run) startPrograms() {
	command := func(args ...string) {
		_, err := r.idworker(args...)
		r.must(err)
	}
	provision := []string{"provision", "--part", "ids", "--replicas", "3", "--lease-ttl", leaseTTL}
	if r.Outage > 0 {
		provision = append(provision, "--outage", r.Outage.String())
	}
	command(provision...)
	for _, name := range slices.Concat(loaders, workers) {
		r.startServing(name)
	}
	r.must(r.createTags())
	if r.Store == "jetstream" {
		command("tag", "import", r.manyTags())
	}
}

// createTags creates the callers' tags that are not there, all at the same time,
// since each command asks all processes what they have seen.
func (r *Run) createTags() error {
	var commands sync.WaitGroup
	var failed atomic.Pointer[error]
	create := func(tag string, args ...string) {
		commands.Go(func() {
			if _, err := r.idworker(append([]string{"tag", "create", tag, "--if-missing"}, args...)...); err != nil {
				failed.Store(&err)
			}
		})
	}
	for _, tag := range append(plainTags[:len(plainTags):len(plainTags)], eventTag) {
		create(tag, "--step", "1000")
	}
	create(templateTags, "--template", "--step", "10")
	for _, tag := range strictTags {
		create(tag, "--order", "strict")
	}
	commands.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// oldTags is how many tags nobody requests, so that the register has old blocks.
const oldTags = 43_000

// manyTags writes a list for `tag import`.
func (r *Run) manyTags() (path string) {
	var list strings.Builder
	for i := range oldTags {
		_, _ = fmt.Fprintf(&list, "old.%d 1000 1\n", i)
	}
	path = filepath.Join(r.work, "old.txt")
	r.must(os.WriteFile(path, []byte(list.String()), 0o600))
	return path
}

// startServing starts a loader, or a worker, which answers HTTP too.
func (r *Run) startServing(name string) {
	role := name[:len(name)-1]
	args := []string{"serve", "--role", role, "--replicas", "3", "--lease-ttl", leaseTTL}
	if role == "worker" {
		address := freeport.Address(r.T) // the same over restarts
		r.apis = append(r.apis, r.link("callers", address))
		args = append(args, "--api", address)
	}
	r.startProgram(name, args...)
}

func (r *Run) startEnrichers() {
	for _, name := range enrichers {
		r.startProgram(name, "enrich", "--from", sourceStream, "--filter", "orders.raw.*", "--to", "orders.ready.*",
			"--id", "segment:"+eventTag, "--json", "id", "--replicas", "3")
	}
}

// startProgram starts a process that reaches the servers through its own
// proxies. The second of each role has the race detector.
func (r *Run) startProgram(name string, args ...string) {
	p := process.Program{Binary: r.binaries.plain, Env: append(r.storeEnv(name), "GORACE=atexit_sleep_ms=20")}
	if name == "loader1" { // keeps a witness, and loader2 does not
		p.Env = append(p.Env, process.StateFolder+filepath.Join(r.work, "state"))
	}
	if strings.HasSuffix(name, "2") {
		p.Binary = r.binaries.race
	}
	r.supervise(name, p, append(args, "--server", strings.Join(r.urls[name], ","))...)
}

// supervise starts a program with a clock of its own.
func (r *Run) supervise(name string, p process.Program, args ...string) *Supervised {
	p.Env = append(p.Env, r.clock(name).Env())
	s, err := startProgram(r.folder, name, p, r.ended, args...)
	r.must(err)
	r.programs[name] = s
	return s
}

// storeEnv names the store to loaders and commands.
func (r *Run) storeEnv(name string) []string {
	if r.database == nil || !strings.HasPrefix(name, "loader") && name != "command" {
		return nil
	}
	return []string{"IDWORKER_STORE=" + r.database.dsn()}
}

// idworker runs a command that has to succeed, and returns its output.
func (r *Run) idworker(args ...string) (string, error) {
	args = append(args, "--server", strings.Join(r.cluster.urls(), ","))
	p, err := process.Program{Binary: r.binaries.plain, Env: r.storeEnv("command")}.Run(args...)
	if p == nil {
		return "", err
	}
	return p.Stdout.String(), err
}

// ended records a program's unrequested end.
func (r *Run) ended(p *Supervised, code int) {
	words := p.lastWords()
	r.note("%s ended by itself with exit code %d: %s", p.Name, code, words)
	if strings.Contains(words, "Can't start JetStream") {
		r.refused(p.Name)
	}
}

// watchGrants reads grants at each server.
func (r *Run) watchGrants() {
	for _, url := range r.cluster.urls() {
		conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*ms), nats.RetryOnFailedConnect(true), nats.Name("grants"))
		r.must(err)
		r.watchers = append(r.watchers, conn)
		sub, err := conn.Subscribe(loadmsg.GrantSubject(messages.DefaultPrefix, "*"), r.readGrant)
		r.must(err)
		r.must(errors.Join(sub.SetPendingLimits(-1, -1), conn.Flush()))
	}
}

func (r *Run) readGrant(msg *nats.Msg) {
	grant, err := loadmsg.DecodeGrant(msg.Data)
	if err == nil {
		err = r.granted.Add(grant)
	}
	if err != nil {
		r.checker.Violation("GRANT: %v", err)
	}
}

func (r *Run) close() {
	for _, conn := range r.watchers {
		conn.Close()
	}
	for name, p := range r.programs {
		if !slices.Contains(servers, name) {
			p.Close()
		}
	}
	if r.cluster != nil {
		r.cluster.close()
	}
}
