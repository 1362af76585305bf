package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/idworker/idworker/cmd/internal/recovery"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
)

// tagRaiseCmd skips IDs that may have been issued. It is the end of every
// restore.
type tagRaiseCmd struct {
	tagFlags `embed:""`

	Tags []string `arg:"" optional:"" name:"tag" help:"Tag; with --all, PATTERN=N skips N IDs of matching tags."`
	All  bool     `help:"Raise every tag above all IDs that were issued (default: by the time)."`
	Next int64    `help:"First ID of the next segment of a tag." placeholder:"ID"`
	By   int64    `help:"Number of IDs to skip." placeholder:"N"`

	recoverFlags `embed:""`
	printFlags   `embed:""`
}

// check rejects conflicting arguments.
func (r *tagRaiseCmd) check() error {
	switch {
	case r.Next < 0 || r.By < 0:
		return problem.Usage(errors.New("--next and --by: allowed is 1 or more"))
	case !r.All && len(r.Tags) != 1:
		return problem.Usage(errors.New("give either a tag or --all"))
	case !r.All && (r.Next > 0) == (r.By > 0):
		return problem.Usage(errors.New("give either --next ID or --by N, 1 or more"))
	case r.All && r.Next > 0:
		return problem.Usage(errors.New("--all needs no number, because tags differ in their next ID"))
	case r.All && r.By > 0 && len(r.Tags) > 0:
		return problem.Usage(errors.New("give either --by or PATTERN=N"))
	case r.All && r.By > recovery.MaxRaiseAll:
		return problem.Usage(fmt.Errorf("--by %d is too large for all tags, allowed is 1 to %d", r.By, int64(recovery.MaxRaiseAll)))
	case !r.All && (r.DryRun || r.Verbose || len(r.Ignore) > 0):
		return problem.Usage(errors.New("--dry-run, --verbose and --ignore need --all"))
	case r.Data != "" && !r.All:
		return problem.Usage(errors.New("--data needs --all"))
	case !r.All:
		return cmp.Or(r.checkData(r.named()), messages.CheckTag(r.Tags[0]))
	}
	_, err := r.lifts()
	return cmp.Or(r.checkData(r.named()), r.checkIgnore(), err)
}

// lifts returns the tags that are lifted by a number.
func (r *tagRaiseCmd) lifts() (lifts []register.Lift, err error) {
	for _, arg := range r.Tags {
		pattern, number, ok := strings.Cut(arg, "=")
		by, bad := strconv.ParseInt(number, 10, 64)
		if !ok || bad != nil || by < 1 || by > recovery.MaxRaiseAll {
			return nil, problem.Usage(fmt.Errorf("%.200q: with --all, expected PATTERN=N with N from 1 to %d, as in 'ticket.*=20000'", arg, int64(recovery.MaxRaiseAll)))
		}
		if err := checkName(pattern); err != nil {
			return nil, err
		}
		lifts = append(lifts, register.Lift{Pattern: pattern, By: by})
	}
	return lifts, nil
}

// Run raises a tag, or all tags.
func (r *tagRaiseCmd) Run(ctx context.Context, in input, out output) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.All {
		lifts, err := r.lifts()
		if err != nil {
			return err
		}
		return r.run(ctx, r.tagFlags, recovery.Wish{By: r.By, Lifts: lifts, Ignore: r.Ignore, Built: built()}, 0, in, out)
	}
	done := newChanges(out)
	return done.End(r.withStore(ctx, func(ctx context.Context, t *tags.Tags) error {
		change, err := t.Raise(ctx, r.Tags[0], r.Next, r.By)
		if err == nil {
			done.Add(change)
		}
		return err
	}))
}
