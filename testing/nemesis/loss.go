package nemesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// A loss is a fault in which JetStream may lose writes of the register. While the
// writes are being lost, loaders may forget, and once the fault is mended, an
// operator decides: if a loader has stopped, he raises all tags until IDs are
// granted again. From the beginning of a loss until its end, no other fault keeps
// what remembers it from being heard.

// registerStream is the stream of the register.
const registerStream = "KV_ids_register"

// loss is what a run remembers about losses of writes.
type loss struct {
	undecided atomic.Bool
	decided   atomic.Int64 // stops of loaders about which an operator has decided
	lost      atomic.Bool  // since the last calm
	missing   atomic.Bool  // a tag or a template is, and may have been lost
	harmed    sync.Map     // of func() error, by server: it puts the file back that was damaged
}

// lose begins a loss. Mending ends with the operator's decision. There is nothing
// to be mended if nothing was done.
func (r *Run) lose(ctx context.Context, f Fault) (mend func() error, err error) {
	r.undecided.Store(true)
	r.lost.Store(true)
	r.harmed.Clear()
	var forgetting sync.WaitGroup
	forget := func() {
		if f.Forget != "" {
			r.forget(f, &forgetting)
		}
	}
	mendLoss, err := r.beginLoss(ctx, f, forget)
	if mendLoss == nil {
		r.undecided.Store(false)
		return nil, err
	}
	return func() error {
		defer r.undecided.Store(false)
		if !lossIsOld(f.Kind) {
			forget()
		}
		mended := mendLoss()
		forgetting.Wait()
		if err := errors.Join(err, mended); err != nil {
			if errors.Is(err, errNoGrants) {
				return err // nothing was put back
			}
			r.note("%s: %v", f.Kind, err) // the servers may have come back otherwise than intended
		}
		failed := r.countLost(ctx, f)
		r.compareReplicas(ctx, registerStream) // a raise writes everything anew
		failed = errors.Join(failed, r.decide(ctx, f))
		r.cluster.seen.Store(0)
		return failed
	}, nil
}

// beginLoss has JetStream lose writes, when it is mended at the latest. If something
// is put back then, loaders forget just before.
func (r *Run) beginLoss(ctx context.Context, f Fault, forget func()) (mend func() error, err error) {
	random := rand.New(rand.NewPCG(r.Seed, uint64(f.Number)))
	what, which, _ := strings.Cut(f.Victim, " on ")
	switch f.Kind {
	case "register put back":
		return r.beginPutBack(ctx, f, forget)
	case "folder lost":
		return r.beginLost(f, what, which)
	case "folder old":
		return r.beginOld(ctx, f, which, forget)
	case "power cut":
		return r.beginPowerCut(ctx, f)
	case "replicas changed":
		return r.beginReplicas(f.Victim)
	case "server removed":
		return r.beginRemoved(f.Victim)
	default:
		return r.beginDamage(f, what, which, random)
	}
}

// countLost compares the register with what it was.
func (r *Run) countLost(ctx context.Context, f Fault) error {
	var after uint64
	err := await(ctx, time.Minute, "the register", func() (err error) {
		after, err = r.cluster.lastSequence(registerStream)
		return err
	})
	if seen := r.cluster.seen.Load(); err == nil && after < seen {
		r.figures.bite(f, func(b *bite) { b.lost = seen - after })
	}
	return err
}

// forget kills all loaders, and with [allForget] all workers as well, and starts
// them again in the background. It is a fault of its own.
func (r *Run) forget(f Fault, background *sync.WaitGroup) {
	k := kinds[kindNamed(f.Forget)]
	random := rand.New(rand.NewPCG(r.Seed, uint64(f.Number)))
	victims := loaders
	if f.Forget == allForget {
		victims = slices.Concat(workers, loaders)
	}
	fault := Fault{Number: f.Number, Kind: f.Forget, Victim: strings.Join(victims, " ")}
	e := r.figures.begin(fault, r.now())
	for _, name := range victims {
		r.programs[name].Kill()
	}
	background.Go(func() {
		time.Sleep(k.min + time.Duration(random.Int64N(int64(k.max-k.min))))
		for _, name := range victims {
			r.programs[name].Release()
		}
		r.figures.end(e, r.now(), nil)
	})
}

// manyGrants are lost, and after someGrants service has come back.
const (
	manyGrants = 100
	someGrants = 3
)

// awaitGrants waits until many IDs are granted, which will be lost.
func (r *Run) awaitGrants(ctx context.Context) error {
	return r.awaitCount(ctx, r.granted.Count()+manyGrants, 30*time.Second)
}

// errNoGrants: loaders grant too little.
var errNoGrants = errors.New("too few grants")

// awaitCount waits until there were so many grants.
func (r *Run) awaitCount(ctx context.Context, count int64, within time.Duration) error {
	return await(ctx, within, "grants", func() error {
		if n := r.granted.Count(); n < count {
			return fmt.Errorf("%w: %d of %d", errNoGrants, n, count)
		}
		return nil
	})
}

// await is [natstest.Await], and ends with the context.
func await(ctx context.Context, within time.Duration, what string, f func() error) error {
	err := natstest.Await(within, what, func() error {
		select {
		case <-ctx.Done():
			return nil
		default:
			return f()
		}
	})
	return cmp.Or(ctx.Err(), err)
}

// The operator waits a moment longer once a loader has stopped, in which another
// loader might grant, and raises if nothing is granted for a minute.
const (
	standing = 10 * time.Second
	away     = time.Minute
)

// raisedBy is more than is granted in a run.
const raisedBy = "1000000000"

// wrongClock is in the refusal of a raise by the time.
const wrongClock = "cannot raise by the time"

// lagging is in the refusal of a raise if a server does not follow the others.
const lagging = "the replica lags behind its leader"

// decide is what an operator does after a loss: if a loader has stopped, or if
// nothing is granted, he raises all tags.
func (r *Run) decide(ctx context.Context, f Fault) error {
	enough := r.granted.Count() + someGrants
	settled := await(ctx, away, "grants", func() error {
		time.Sleep(100 * ms) // the logs are read as a whole
		if !r.stopped() && r.granted.Count() < enough {
			return errNoGrants
		}
		return nil
	}) == nil
	stopped := r.stopped()
	r.figures.bite(f, func(b *bite) { b.stopped = stopped })
	if settled && !stopped || !sleep(ctx, standing) {
		return nil
	}
	err := r.raise(ctx)
	r.figures.bite(f, func(b *bite) { b.raised = err == nil })
	return err
}

// stopped reports whether a loader has stopped since the last decision.
func (r *Run) stopped() bool { return r.stops() > r.decided.Load() }

// stops is how often loaders have stopped, or stood still since their start.
func (r *Run) stops() (n int64) {
	for _, name := range loaders {
		text, _ := os.ReadFile(filepath.Join(r.folder, name+".log"))
		n += int64(strings.Count(string(text), "granting stopped") + strings.Count(string(text), "granting nothing until"))
	}
	return n
}

// raise raises all tags, by the time, or by a number if that is refused because a
// clock is wrong, until IDs are granted again.
func (r *Run) raise(ctx context.Context) error {
	defer func() { r.decided.Store(r.stops()) }()
	said := ""
	return await(ctx, patient, "grants after a raise", func() error {
		enough := r.granted.Count() + someGrants
		_, err := r.idworker("tag", "raise", "--all", "--yes")
		if err != nil && strings.Contains(err.Error(), wrongClock) {
			_, err = r.idworker("tag", "raise", "--all", "--yes", "--by", raisedBy)
		}
		if err == nil {
			return r.awaitCount(ctx, enough, 2*standing)
		}
		if text := err.Error(); text != said {
			r.Say("%6.1fs raise: %s", r.now().Seconds(), text)
			said = text
		}
		if strings.Contains(err.Error(), lagging) {
			r.emptyStray(ctx)
		}
		return err
	})
}
