package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

var (
	// ErrNotRaised means that loaders were granted more than the raise skipped.
	ErrNotRaised = problem.New(problem.MustRaise, "not raised enough")

	// ErrBehind means that workers may still hand out what was granted before the
	// raise.
	ErrBehind = errors.New("all tags were raised, but some processes do not follow")
)

// Followed is which processes follow a decision.
type Followed struct {
	// Silent are processes that did not answer. They drop what they hold once they
	// are in contact with NATS again. Older are processes of version 0.2.0, which
	// hand it out until they are restarted.
	Silent, Older []string

	// Strangers are silent, too, but belong to an installation that was replaced.
	// Others answer, and belong to another installation.
	Strangers, Others []string

	// Unasked means that the user may not list processes.
	Unasked bool
}

// followers bounds the waits for the processes of a decision.
type followers struct {
	workers time.Duration
	loaders time.Duration
	pause   time.Duration // between two questions
}

// usual suits loaders with a million tags, which compare their caches.
var usual = followers{workers: 15 * time.Second, loaders: time.Minute, pause: 500 * time.Millisecond}

// followAgain announces the latest decision, if there is one, and waits until the
// processes that answer follow it: the command that decided may have ended before
// that.
func followAgain(ctx context.Context, i *Site, ignored []string) (Followed, error) {
	if err := register.Announce(ctx, i.js, i.prefix); err != nil {
		return Followed{}, err
	}
	state, err := register.Look(ctx, i.js, i.prefix)
	if err != nil {
		return Followed{}, err
	}
	target := state.Floor
	if len(state.Decisions) == 0 {
		target = 0
	}
	done, err := usual.follow(ctx, i, target, &Evidence{ignored: ignored})
	return Followed{Others: done.Others}, err
}

// follow waits until the processes that answer follow a decision with that target:
// loaders grant again, and workers have dropped what was granted before. Target 0
// means that there is no decision. It waits for those that answered before the raise
// even if they do not answer now. The error is an [ErrNotRaised] if a loader was
// granted more than was skipped, an [ErrBehind] if a process does not follow in
// time.
func (f followers) follow(ctx context.Context, i *Site, target int64, e *Evidence) (done Followed, err error) {
	if done.Unasked = !natsconn.Allowed(ctx, i.js, worker.AskReportsRights()); done.Unasked {
		return done, nil
	}
	installation, err := agreement.LookupID(ctx, i.js, i.prefix)
	if err != nil {
		return done, err
	}
	for began := time.Now(); ; pause.For(ctx, f.pause) {
		reports, err := worker.AskReports(ctx, i.js.Conn(), i.prefix, nil)
		done = Followed{}
		if ctx.Err() != nil { // what did not answer proves nothing
			err = ctx.Err()
		}
		if err != nil && !errors.Is(err, worker.ErrNoReports) {
			return done, fmt.Errorf("all tags were raised, but it was not seen that all processes follow; run it again: %w", err)
		}
		silent, absent := maps.Clone(e.answered), slices.Clone(e.absent)
		var behind, stopped []string
		for _, r := range reports {
			if e.ignores(r.Instance) {
				continue
			}
			_, known := silent[r.Instance]
			delete(silent, r.Instance)
			absent = slices.DeleteFunc(absent, func(instance string) bool { return instance == r.Instance })
			own := r.Stats.Installation == installation
			switch {
			case !own:
				done.Others = append(done.Others, nameOf(r))
			case target > 0 && r.RaiseBy > 0:
				return done, fmt.Errorf("%w: loader %s was granted %d more IDs of a tag than were skipped: %s", ErrNotRaised, r.Instance, r.RaiseBy, r.Stopped)
			case target > 0 && r.Stopped != "":
				stopped = append(stopped, nameOf(r)+": "+r.Stopped)
			case r.Loads() && r.Floor < target:
				stopped = append(stopped, nameOf(r)+" has not taken over the decision")
			}
			switch {
			case target == 0 || !r.AnswersSegments() || !own && !known:
			case r.BufferFloor == 0:
				done.Older = append(done.Older, nameOf(r))
			case r.BufferFloor < target:
				behind = append(behind, nameOf(r))
			}
		}
		for _, instance := range slices.Sorted(maps.Keys(silent)) {
			if p := silent[instance]; p.Stats.Installation == installation {
				done.Silent = append(done.Silent, nameOf(p))
			} else {
				done.Strangers = append(done.Strangers, nameOf(p))
			}
		}
		done.Silent = append(done.Silent, absent...)
		switch passed := time.Since(began); {
		case len(stopped) > 0 && passed < f.loaders,
			len(behind)+len(silent) > 0 && passed < f.workers:
		case len(stopped) > 0:
			return done, fmt.Errorf("%w: loader %s", ErrBehind, strings.Join(stopped, "; "))
		case len(behind) > 0:
			return done, fmt.Errorf("%w: they may hand out IDs from before; restart them: %s", ErrBehind, strings.Join(behind, ", "))
		default:
			return done, nil
		}
	}
}
