package tags

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// Raised is the result of a raise of all tags.
type Raised struct {
	Target int64 // the lowest first ID of new tags

	// Silent are processes that did not answer. They drop what they hold once they
	// are in contact with NATS again. Older are processes of version 0.2.0, which
	// hand it out until they are restarted.
	Silent, Older []string

	// Strangers are silent, too, but belong to an installation that was replaced.
	Strangers []string

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

// Follow announces the latest decision, if there is one, and waits until the
// processes that answer follow it: loaders grant again, and workers have dropped
// what was granted before. It may be repeated. The error is an [ErrNotRaised] if
// a loader was granted more than was skipped, an [ErrBehind] if a process does
// not follow in time.
func Follow(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (Raised, error) {
	if err := register.Announce(ctx, js, prefix); err != nil {
		return Raised{}, err
	}
	state, err := register.Look(ctx, js, prefix)
	if err != nil || len(state.Decisions) == 0 {
		return Raised{}, err
	}
	return usual.follow(ctx, js, prefix, state.Floor, &known{})
}

// follow waits for a decision's processes. It waits for those that answered
// before the raise even if they do not answer now.
func (f followers) follow(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, target int64, k *known) (done Raised, err error) {
	before := k.answered
	done.Target = target
	if done.Unasked = !Allowed(ctx, js, worker.AskReportsRights()); done.Unasked {
		return done, nil
	}
	installation, err := agreement.LookupID(ctx, js, prefix)
	if err != nil {
		return done, err
	}
	for began := time.Now(); ; pause.For(ctx, f.pause) {
		reports, err := worker.AskReports(ctx, js.Conn(), prefix, nil)
		if ctx.Err() != nil { // what did not answer proves nothing
			done.Silent, done.Strangers, done.Older = nil, nil, nil
			return done, fmt.Errorf("all tags were raised, but it was not seen that all processes follow; run it again: %w", ctx.Err())
		}
		if err != nil && !errors.Is(err, worker.ErrNoReports) {
			return done, fmt.Errorf("all tags were raised, but it was not seen that all processes follow; run it again: %w", err)
		}
		silent := maps.Clone(before)
		done.Silent, done.Strangers, done.Older = nil, nil, nil
		absent := slices.Clone(k.absent)
		var behind, stopped []string
		for _, r := range reports {
			_, known := before[r.Instance]
			delete(silent, r.Instance)
			absent = slices.DeleteFunc(absent, func(instance string) bool { return instance == r.Instance })
			own := r.Stats.Installation == installation
			switch {
			case own && r.RaiseBy > 0:
				return done, fmt.Errorf("%w: loader %s was granted %d more IDs of a tag than were skipped: %s", ErrNotRaised, r.Instance, r.RaiseBy, r.Stopped)
			case own && r.Stopped != "":
				stopped = append(stopped, nameOf(r)+": "+r.Stopped)
			case own && r.Loads() && r.Floor < target:
				stopped = append(stopped, nameOf(r)+" has not taken over the decision")
			}
			switch {
			case !r.AnswersSegments() || !own && !known:
			case r.BufferFloor == 0:
				done.Older = append(done.Older, nameOf(r))
			case r.BufferFloor < target:
				behind = append(behind, nameOf(r))
			}
		}
		waiting := len(behind) + len(silent)
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
			waiting > 0 && passed < f.workers:
		case len(stopped) > 0:
			return done, fmt.Errorf("%w: loader %s", ErrBehind, strings.Join(stopped, "; "))
		case len(behind) > 0:
			return done, fmt.Errorf("%w: they may hand out IDs from before; restart them: %s", ErrBehind, strings.Join(behind, ", "))
		default:
			return done, nil
		}
	}
}
