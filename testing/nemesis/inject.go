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
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
)

// patient is when a run stops to wait for service to come back: it only finds
// hangs. How soon it came back is in the report.
const patient = 4 * time.Minute

// endWithin bounds a process's end after SIGTERM, before it's killed.
const endWithin = 30 * time.Second

// inject injects all faults of the schedule at their times, each from a
// goroutine of its own, and waits in each calm until everything has recovered.
// If that takes longer than the calm, or an operator longer to decide about a loss
// than until the next one, the rest of the schedule is later. The error is that
// nothing came back: then there is nothing left to check.
func (r *Run) inject(ctx context.Context) error {
	schedule, period := Schedule(r.Seed, r.Store, r.Only, r.Duration), cycle
	if r.Outage > 0 {
		schedule, period = Outages(r.Seed, r.Duration), outageCycle
	}
	if err := os.WriteFile(filepath.Join(r.folder, "schedule.txt"), []byte(Table(schedule)), 0o600); err != nil {
		r.checker.Violation("%v", err)
	}
	r.Say("schedule of %d faults:\n%s", len(schedule), Table(schedule))
	var mending sync.WaitGroup
	defer mending.Wait()
	begin := r.now()
	for i, f := range schedule {
		if !sleep(ctx, begin+f.Begin-r.now()) {
			return nil
		}
		if kinds[kindNamed(f.Kind)].loses() {
			r.awaitDecision(ctx)
			begin = max(begin, r.now()-f.Begin)
		}
		began := begin
		mending.Go(func() { r.do(ctx, f, began) })
		if i+1 == len(schedule) || schedule[i+1].Begin/period > f.Begin/period {
			mending.Wait()
			if err := r.calm(ctx); err != nil {
				return err
			}
			if i+1 < len(schedule) {
				begin = max(begin, r.now()-schedule[i+1].Begin)
			}
		}
	}
	sleep(ctx, begin+r.Duration-r.now())
	return nil
}

// awaitDecision waits until no loss is undecided.
func (r *Run) awaitDecision(ctx context.Context) {
	for r.undecided.Load() && sleep(ctx, 100*ms) {
	}
}

// calm waits until everything has recovered from a storm. If writes may have been
// lost, an operator empties a server that does not follow, raises the tags if a
// loader has stopped late, and creates the tags that are missing.
func (r *Run) calm(ctx context.Context) error {
	since, lost := r.now(), r.lost.Load()
	if lost {
		r.emptyStray(ctx)
		if r.stopped() { // only now
			if err := r.raise(ctx); err != nil {
				r.note("%v", err)
			}
		}
		if err := r.cluster.flush(); err != nil {
			r.note("%v", err)
		}
	}
	if r.missing.Load() {
		if err := await(ctx, time.Minute, "the tags", r.createTags); err != nil {
			r.note("%v", err)
		}
		sleep(ctx, 2*allocator.DefaultReAsk+patience) // until no worker remembers that there was none
	}
	last, err := r.awaitRecovery(ctx, since)
	if took := r.now() - since; took > calm {
		r.note("recovered %v after the storm, %v last", took.Round(ms), last)
	}
	ids, answers := r.checker.Counts()
	r.Say("%6.1fs calm; recovered after %.1fs, %v last; %d IDs in %d answers, %d violations", r.now().Seconds(), (r.now() - since).Seconds(), last, ids, answers, len(r.checker.Violations()))
	if !lost {
		r.decided.Store(r.stops()) // a server that was cut off may have shown an old state for a while
		r.compareReplicas(ctx, registerStream)
	}
	r.lost.Store(false)
	r.missing.Store(false)
	return err
}

// awaitRecovery waits until all kinds of callers are answered again, and
// returns which were the last.
func (r *Run) awaitRecovery(ctx context.Context, since time.Duration) (last []Kind, err error) {
	for {
		late := r.figures.late(since - storm)
		if len(late) == 0 {
			return last, nil
		}
		if r.now() > since+patient {
			return late, fmt.Errorf("%w, %v after all faults were mended: %v", errUnserved, patient, late)
		}
		if last = late; !sleep(ctx, 100*ms) {
			return last, nil
		}
	}
}

// do injects a fault, and mends it when its time has come.
func (r *Run) do(ctx context.Context, f Fault, begin time.Duration) {
	e := r.figures.begin(f, r.now())
	note, mend, err := r.begin(ctx, f)
	if err == nil {
		sleep(ctx, begin+f.End-r.now())
		err = mend()
	}
	if err != nil {
		note = strings.TrimSpace(note + " " + err.Error())
	}
	r.figures.end(e, r.now(), err)
	r.Say("%6.1fs %v  %s%v", r.now().Seconds(), f, note, r.figures.bitten(f))
}

// errUndecided: a fault was not done, because it would have kept what remembers a
// loss from being heard, before an operator has decided.
var errUndecided = errors.New("not done: a loss is not decided")

// begin injects a fault. The note has details that the schedule lacks.
func (r *Run) begin(ctx context.Context, f Fault) (note string, mend func() error, err error) {
	spared := func(part string) bool { return part == partServers || slices.Contains(remembering, part) }
	if r.undecided.Load() && slices.ContainsFunc(kinds[kindNamed(f.Kind)].parts(f.Victim), spared) {
		return "", nil, errUndecided
	}
	switch partOfKind(f.Kind) {
	case partProcess:
		return r.beginProcess(f)
	case partClock:
		return r.beginClock(f)
	case partLink:
		if strings.HasSuffix(f.Kind, "at a write") {
			return r.beginWrite(f)
		}
		return r.disturb(f, f.Victim)
	case partServers:
		return r.beginServers(ctx, f)
	default:
		mended := r.database.begin(f)
		return "", func() error { mended(); return nil }, nil
	}
}

func partOfKind(name string) string {
	return kinds[kindNamed(name)].part
}

func (r *Run) beginProcess(f Fault) (note string, mend func() error, err error) {
	p := r.programs[f.Victim]
	switch f.Kind {
	case "kill":
		p.Kill()
		return "", func() error { p.Release(); return nil }, nil
	case "term":
		return "", r.terminate(p), nil
	case "little memory":
		p.Kill()
		p.Release("GOMEMLIMIT=16MiB", "GOGC=5")
		return "", func() error { p.Kill(); p.Release(); return nil }, nil
	case "stutter":
		return "", stutter(p), nil
	case "suspend":
		return "", r.suspend(p), nil
	default: // pauses
		return "", freeze(p), nil
	}
}

// terminate sends SIGTERM to a program. It is restarted when it has ended and
// the fault is over.
func (r *Run) terminate(p *Supervised) (mend func() error) {
	result := make(chan error, 1)
	go func() { result <- p.Terminate(endWithin) }()
	return func() error {
		err := <-result
		if err != nil {
			r.note("%v", err)
		}
		p.Release()
		return err
	}
}

// freeze pauses a program, which cannot detect that.
func freeze(p *Supervised) (mend func() error) {
	resume := p.Pause()
	return func() error { resume(); return nil }
}

// suspend pauses a program, whose clock then is ahead for a moment, as that of a
// machine may be that was suspended.
func (r *Run) suspend(p *Supervised) (mend func() error) {
	resume, clock := p.Pause(), r.clock(p.Name)
	return func() error {
		err := clock.Set(3*time.Second, 0)
		resume()
		time.Sleep(2 * time.Second)
		return errors.Join(err, clock.Set(0, 0))
	}
}

// stutter has a program run a tenth of the time.
func stutter(p *Supervised) (mend func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			resume := p.Pause()
			sleep(ctx, 180*ms)
			resume()
			sleep(ctx, 20*ms)
		}
	})
	return func() error { cancel(); wg.Wait(); return nil }
}

// steps are clock steps. Beyond --max-clock-skew, 5 s, a worker makes no
// snowflake IDs.
var steps = []time.Duration{
	-24 * time.Hour, -time.Hour, -20 * time.Second, -3 * time.Second, -time.Second, -300 * ms,
	300 * ms, time.Second, 3 * time.Second, 20 * time.Second, time.Hour, 24 * time.Hour,
}

// rates are by how many millionths clocks go faster.
var rates = []int64{-300_000, -20_000, 20_000, 300_000}

func (r *Run) beginClock(f Fault) (note string, mend func() error, err error) {
	clock := r.clock(f.Victim)
	mend = func() error { return clock.Set(0, 0) }
	if f.Kind == "clock rate" {
		rate := rates[f.Size%len(rates)]
		return fmt.Sprintf("%+d %%", rate/10_000), mend, clock.Set(0, rate)
	}
	step := steps[f.Size%len(steps)]
	return "by " + step.String(), mend, clock.Set(step, 0)
}

// disturb disturbs links, whose owners are the clients.
func (r *Run) disturb(f Fault, owners ...string) (note string, mend func() error, err error) {
	disturb := func(p *proxy.Proxy) { p.Lose(proxy.Both...) } // cut off, or silent
	switch f.Kind {
	case "connections cut":
		disturb = (*proxy.Proxy).Refuse
	case "hears nothing":
		disturb = func(p *proxy.Proxy) { p.Lose(proxy.ToClient) }
	case "says nothing":
		disturb = func(p *proxy.Proxy) { p.Lose(proxy.ToServer) }
	case "route one way":
		note = []string{"to the server", "to the client"}[f.Size%2]
		disturb = func(p *proxy.Proxy) { p.Lose(proxy.Both[f.Size%2]) }
	case "slow link":
		disturb = func(p *proxy.Proxy) { p.Delay(50*ms, 300*ms) }
	case "route slow":
		disturb = func(p *proxy.Proxy) { p.Delay(50*ms, 500*ms) }
	case "narrow link":
		disturb = func(p *proxy.Proxy) { p.Narrow(40_000) }
	}
	all := func(f func(*proxy.Proxy)) {
		for _, owner := range owners {
			for _, p := range r.links[owner] {
				f(p)
			}
		}
	}
	all(disturb)
	return note, func() error { all((*proxy.Proxy).Mend); return nil }, nil
}

func (r *Run) beginServers(ctx context.Context, f Fault) (note string, mend func() error, err error) {
	if kinds[kindNamed(f.Kind)].loses() {
		mend, err = r.lose(ctx, f)
		return "", mend, err
	}
	nothing := func() error { return nil }
	p := r.programs[f.Victim]
	if strings.HasPrefix(f.Kind, "leader") {
		// While servers fail, it may lack a leader, or no server answers.
		err = natstest.Await(f.End-f.Begin+3*time.Second, "a leader", func() error { p, err = r.cluster.leader(f.Victim); return err })
		if err != nil {
			return "", nothing, err
		}
		note = p.Name
	}
	switch f.Kind {
	case "server killed", "leader killed":
		p.Kill()
		return note, func() error { p.Release(); return nil }, nil
	case "server stopped":
		return "", r.terminate(p), nil
	case "server frozen", "leader frozen":
		return note, freeze(p), nil
	case "leader steps down":
		return note, nothing, r.cluster.stepDown(f.Victim)
	case "all servers killed", "majority away":
		names := strings.Fields(f.Victim)
		for _, name := range names {
			r.programs[name].Kill()
		}
		return "", func() error {
			for _, name := range names {
				r.programs[name].Release()
			}
			return nil
		}, nil
	case "disk full":
		return r.fillDisk(p)
	case "step-downs":
		return "", r.stepDowns(f.Victim), nil
	case "server cut off":
		return r.disturb(f, slices.DeleteFunc(slices.Clone(routes), func(route string) bool { return !strings.Contains(route, f.Victim) })...)
	default:
		return r.disturb(f, f.Victim)
	}
}

// fillDisk fills a server's disk. The server gives up JetStream then, so it is
// started again when there is room.
func (r *Run) fillDisk(p *Supervised) (note string, mend func() error, err error) {
	if err := r.cluster.fill(p.Name); err != nil {
		return "", nil, err
	}
	return "", func() error {
		err := os.Remove(r.cluster.filler(p.Name))
		p.Kill()
		p.Release()
		return err
	}, nil
}

// sleep waits, and reports whether the context still lasts.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
