package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/cutter"
	"github.com/idworker/idworker/testing/process"
)

// Run is one run of the nemesis.
type Run struct {
	Seed     uint64
	Store    string
	Duration time.Duration
	T        testing.TB // whose databases they are; also ended by a fault that cannot be mended
	Say      func(format string, args ...any)

	began    time.Time
	work     string // what is removed in the end
	folder   string // what stays on a violation
	binaries binaries
	links    *Links
	urls     map[string][]string // of the servers, through whose proxies
	programs map[string]*Program
	cluster  *Cluster
	database *database
	cutters  map[string]*cutter.Cutter
	granted  *Granted
	checker  *Checker
	figures  figures
	history  *history.Writer
	answers  answers
	exits    exits
	late     atomic.Int64 // answers to raw requests that nobody waited for any more
	watchers []*nats.Conn // who read grants
}

// answers are those that were received and not checked yet.
type answers struct {
	mu    sync.Mutex
	queue []*Call
}

// exits are programs that ended by themselves.
type exits struct {
	mu   sync.Mutex
	list []string
}

// binaries are the programs of the cast.
type binaries struct{ plain, race, server string }

// checkAfter is how long after an answer it is checked: its grant is known by then.
const checkAfter = 1500 * ms

// now is the time since the run began.
func (r *Run) now() time.Duration { return time.Since(r.began) }

// clock is the clock of one of the cast.
func (r *Run) clock(name string) Clock { return Clock{filepath.Join(r.work, name+".clock")} }

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
	r.links, r.urls, r.programs = NewLinks(), make(map[string][]string), make(map[string]*Program)
	r.granted = new(Granted)
	r.checker = NewChecker(snowflake.Default(), r.granted)
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
			link, err := r.links.Add(name, address)
			if err != nil {
				return err
			}
			r.urls[name] = append(r.urls[name], "nats://"+link)
		}
	}
	if err := r.startCutters(); err != nil {
		return err
	}
	if err := r.watchGrants(); err != nil {
		return err
	}
	return r.startPrograms()
}

// leaseTTL is how long the worker ID of a process that died is not given to others. It may not be shorter.
const leaseTTL = "15s"

// startPrograms starts idworker, in all its roles.
func (r *Run) startPrograms() error {
	if err := r.idworker("provision", "--part", "ids", "--replicas", "3", "--lease-ttl", leaseTTL); err != nil {
		return err
	}
	for _, name := range slices.Concat(loaders, workers) {
		role := name[:len(name)-1]
		if err := r.startProgram(name, "serve", "--role", role, "--replicas", "3", "--tag-refresh", "2s", "--lease-ttl", leaseTTL); err != nil {
			return err
		}
	}
	for _, tag := range append(plainTags[:len(plainTags):len(plainTags)], eventTag) {
		if err := r.idworker("tag", "create", tag, "--step", "1000"); err != nil {
			return err
		}
	}
	if err := r.idworker("tag", "create", templateTags, "--template", "--step", "10"); err != nil {
		return err
	}
	for _, tag := range strictTags {
		err := waitFor(time.Minute, "strict tag "+tag, func() error { return r.idworker("tag", "create", tag, "--order", "strict") })
		if err != nil {
			return err
		}
	}
	return nil
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

// startProgram starts a process that reaches the servers through its own proxies. The second of each role has the
// race detector.
func (r *Run) startProgram(name string, args ...string) error {
	s := process.Settings{Binary: r.binaries.plain, Env: append(r.storeEnv(name), r.clock(name).env(), "GORACE=atexit_sleep_ms=20")}
	if strings.HasSuffix(name, "2") {
		s.Binary = r.binaries.race
	}
	p, err := startProgram(r.folder, name, s, r.ended, append(args, "--server", strings.Join(r.urls[name], ","))...)
	r.programs[name] = p
	return err
}

// storeEnv tells loaders, and commands, which store there is.
func (r *Run) storeEnv(name string) []string {
	if r.database == nil || !strings.HasPrefix(name, "loader") && name != "command" {
		return nil
	}
	return []string{"IDWORKER_STORE=" + r.database.dsn()}
}

// idworker runs a command that has to succeed.
func (r *Run) idworker(args ...string) error {
	args = append(args, "--server", strings.Join(r.cluster.urls(), ","))
	p, err := process.Settings{Binary: r.binaries.plain, Env: r.storeEnv("command")}.Launch(args...)
	if err != nil {
		return err
	}
	select {
	case <-p.Ended:
	case <-time.After(2 * time.Minute):
		p.Kill()
	}
	if code := p.Cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("idworker %s: exit code %d\n%s%s", strings.Join(args, " "), code, p.Stdout.Tail(), p.Stderr.Tail())
	}
	return nil
}

// ended records that a program ended by itself.
func (r *Run) ended(p *Program, code int) {
	r.exits.mu.Lock()
	defer r.exits.mu.Unlock()
	r.exits.list = append(r.exits.list, fmt.Sprintf("%.1fs %s ended by itself with exit code %d: %s", r.now().Seconds(), p.Name, code, p.lastWords()))
}

// watchGrants reads grants at each server.
func (r *Run) watchGrants() error {
	for _, url := range r.cluster.urls() {
		conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*ms), nats.RetryOnFailedConnect(true), nats.Name("grants"))
		if err != nil {
			return err
		}
		r.watchers = append(r.watchers, conn)
		sub, err := conn.Subscribe(loads.GrantSubject(messages.DefaultPrefix, "*"), r.readGrant)
		if err = errors.Join(err, sub.SetPendingLimits(-1, -1), conn.Flush()); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) readGrant(msg *nats.Msg) {
	grant, err := loads.DecodeGrant(msg.Data)
	if err == nil {
		err = r.granted.Add(grant)
	}
	if err != nil {
		r.checker.Violation("GRANT: %v", err)
	}
}

// record takes an answer. Received is set under the lock, so that the answers in the queue are in that order.
func (r *Run) record(c *Call) {
	r.answers.mu.Lock()
	c.Received = r.now()
	r.answers.queue = append(r.answers.queue, c)
	r.answers.mu.Unlock()
	r.figures.add(c)
}

// check checks the answers that came before a time.
func (r *Run) check(before time.Duration) {
	r.answers.mu.Lock()
	i, _ := slices.BinarySearchFunc(r.answers.queue, before, func(c *Call, t time.Duration) int { return int(c.Received - t) })
	due := r.answers.queue[:i]
	r.answers.queue = slices.Clone(r.answers.queue[i:])
	r.answers.mu.Unlock()
	for _, c := range due {
		r.checker.Check(c)
		r.history.Write(c)
	}
}

// checkAll checks answers as they become due, until the context ends, and then all that are left.
func (r *Run) checkAll(ctx context.Context) {
	for ctx.Err() == nil {
		r.check(r.now() - checkAfter)
		time.Sleep(100 * ms)
	}
	r.check(1<<63 - 1)
	r.checker.Finish()
}

// Execute runs everything. The error is one of the run itself; violations are in the checker.
func (r *Run) Execute(ctx context.Context) error {
	r.Say("building")
	if err := r.build(); err != nil {
		return err
	}
	if err := r.startDatabase(); err != nil {
		return err
	}
	defer r.close()
	r.Say("starting")
	if err := r.start(); err != nil {
		return err
	}
	asking, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	checking, stopChecking := context.WithCancel(context.Background())
	defer stopChecking()
	events, err := r.startEvents(asking)
	if err != nil {
		return err
	}
	if err := r.startEnrichers(); err != nil {
		return err
	}
	var background sync.WaitGroup
	background.Go(func() { r.checkAll(checking) })
	reading, stopReading := context.WithCancel(context.Background())
	defer stopReading()
	background.Go(func() { events.read(reading) })
	callers, err := r.startCallers(asking)
	if err != nil {
		return err
	}
	events.start()
	err = waitFor(time.Minute, "all kinds of callers to be answered", r.served)
	if err == nil {
		r.inject(ctx)
	}
	stopAsking()
	callers.finish()
	events.finish()
	stopReading()
	stopChecking()
	background.Wait()
	if err == nil {
		r.inTheEnd(events)
	}
	return errors.Join(err, r.history.Close())
}

// served returns nil when each kind of caller was answered.
func (r *Run) served() error {
	r.figures.mu.Lock()
	defer r.figures.mu.Unlock()
	for _, k := range recovering {
		if t := r.figures.kinds[k]; t == nil || t.calls == t.failed {
			return fmt.Errorf("%w: %s", errUnserved, k)
		}
	}
	return nil
}

var errUnserved = errors.New("not answered")

// inTheEnd compares what is there in the end.
func (r *Run) inTheEnd(e *events) {
	if err := r.idworker("enrich", "verify", "--from", sourceStream, "--filter", "orders.raw.*", "--to", "orders.ready.*", "--json", "id"); err != nil {
		r.checker.Violation("enrich verify: %v", err)
	}
	for tag, next := range r.nextIDs() {
		if highest := r.checker.Highest()[tag]; highest >= next {
			r.checker.Violation("STORE: ID %d of %s was handed out, but the store begins at %d", highest, tag, next)
		}
	}
	for name := range r.programs {
		text, _ := os.ReadFile(filepath.Join(r.folder, name+".log"))
		for _, bad := range []string{"DATA RACE", "\npanic: ", "\nfatal error: "} {
			if strings.Contains(string(text), bad) {
				r.checker.Violation("%s: %s in its log", strings.TrimSpace(bad), name)
			}
		}
	}
	r.checker.events = int64(e.seen())
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
	for _, c := range r.cutters {
		c.Close()
	}
	if r.links != nil {
		r.links.Close()
	}
}
