package nemesis

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/internal/loadmsg"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/proxy"
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
func (r *Run) build() (err error) {
	overlay, err := clockOverlay(r.work)
	if err != nil {
		return err
	}
	if r.binaries.plain, err = process.Build(r.work, "idworker", process.Command, overlay); err != nil {
		return err
	}
	if r.binaries.race, err = process.Build(r.work, "idworker-race", process.Command, overlay, "-race"); err != nil {
		return err
	}
	r.binaries.server, err = process.Build(r.work, "nats-server", process.NATSServer, overlay)
	return err
}

// start brings the cast onto the stage.
func (r *Run) start() error {
	r.began = time.Now()
	r.links, r.urls, r.programs = make(map[string][]*proxy.Proxy), make(map[string][]string), make(map[string]*Supervised)
	r.granted = new(Granted)
	r.checker = NewJudge(snowflake.Default(), r.granted)
	r.checker.told = func(violation string) { r.Say("%6.1fs VIOLATION: %s", r.now().Seconds(), violation) }
	var err error
	if r.history, err = history.Create(filepath.Join(r.folder, "history.gz"), snowflake.Default()); err != nil {
		return err
	}
	if err := r.startCluster(); err != nil {
		return err
	}
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
	if err := r.watchGrants(); err != nil {
		return err
	}
	return r.startPrograms()
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
func (r *Run) startPrograms() error {
	if _, err := r.idworker("provision", "--part", "ids", "--replicas", "3", "--lease-ttl", leaseTTL); err != nil {
		return err
	}
	for _, name := range slices.Concat(loaders, workers) {
		if err := r.startServing(name); err != nil {
			return err
		}
	}
	for _, tag := range append(plainTags[:len(plainTags):len(plainTags)], eventTag) {
		if _, err := r.idworker("tag", "create", tag, "--step", "1000"); err != nil {
			return err
		}
	}
	if _, err := r.idworker("tag", "create", templateTags, "--template", "--step", "10"); err != nil {
		return err
	}
	for _, tag := range strictTags {
		if _, err := r.idworker("tag", "create", tag, "--order", "strict"); err != nil {
			return err
		}
	}
	return nil
}

// startServing starts a loader, or a worker, which answers HTTP too.
func (r *Run) startServing(name string) error {
	role := name[:len(name)-1]
	args := []string{"serve", "--role", role, "--replicas", "3", "--lease-ttl", leaseTTL}
	if role == "worker" {
		address := freeport.Address(r.T) // the same over restarts
		r.apis = append(r.apis, r.link("callers", address))
		args = append(args, "--api", address)
	}
	return r.startProgram(name, args...)
}

func (r *Run) startEnrichers() error {
	for _, name := range enrichers {
		err := r.startProgram(name, "enrich", "--from", sourceStream, "--filter", "orders.raw.*", "--to", "orders.ready.*",
			"--id", "segment:"+eventTag, "--json", "id", "--replicas", "3")
		if err != nil {
			return err
		}
	}
	return nil
}

// startProgram starts a process that reaches the servers through its own
// proxies. The second of each role has the race detector.
func (r *Run) startProgram(name string, args ...string) error {
	s := process.Program{Binary: r.binaries.plain, Env: append(r.storeEnv(name), r.clock(name).env(), "GORACE=atexit_sleep_ms=20")}
	if strings.HasSuffix(name, "2") {
		s.Binary = r.binaries.race
	}
	p, err := startProgram(r.folder, name, s, r.ended, append(args, "--server", strings.Join(r.urls[name], ","))...)
	r.programs[name] = p
	return err
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
	if err != nil {
		return "", err
	}
	return p.Stdout.String(), nil
}

// ended records a program's unrequested end.
func (r *Run) ended(p *Supervised, code int) {
	r.note("%s ended by itself with exit code %d: %s", p.Name, code, p.lastWords())
}

// watchGrants reads grants at each server.
func (r *Run) watchGrants() error {
	for _, url := range r.cluster.urls() {
		conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*ms), nats.RetryOnFailedConnect(true), nats.Name("grants"))
		if err != nil {
			return err
		}
		r.watchers = append(r.watchers, conn)
		sub, err := conn.Subscribe(loadmsg.GrantSubject(messages.DefaultPrefix, "*"), r.readGrant)
		if err = errors.Join(err, sub.SetPendingLimits(-1, -1), conn.Flush()); err != nil {
			return err
		}
	}
	return nil
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
