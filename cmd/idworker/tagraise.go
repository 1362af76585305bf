package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// tagRaiseCmd skips IDs that may have been issued. It is the end of every
// restore.
type tagRaiseCmd struct {
	tagFlags `embed:""`

	Tags []string `arg:"" optional:"" name:"tag" help:"Tag; with --all, PATTERN=N skips N IDs of matching tags."`
	All  bool     `help:"Raise every tag above all IDs that were issued (default: by the time)."`
	Next int64    `help:"First ID of the next segment of a tag." placeholder:"ID"`
	By   int64    `help:"Number of IDs to skip." placeholder:"N"`

	DryRun  bool `help:"Print the changes and make none."`
	Yes     bool `help:"Skip the prompt."`
	Verbose bool `help:"Print a line per tag."`

	dataFlags  `embed:""`
	printFlags `embed:""`
}

// dataFlags select the data folder of a stopped embedded server.
type dataFlags struct {
	Data    string `help:"Data folder of a stopped embedded server." placeholder:"FOLDER" type:"path"`
	Witness string `help:"Witness of --data (default: FOLDER.witness)." placeholder:"FILE" type:"path"`
}

// checkData rejects a witness without a folder, and a folder beside a server.
func (f dataFlags) checkData(named bool) error {
	switch {
	case f.Data == "" && f.Witness != "":
		return problem.Usage(errors.New("--witness needs --data"))
	case f.Data != "" && named:
		return problem.Usage(errors.New("--data excludes --server, --context and their environment variables, such as NATS_URL"))
	}
	return nil
}

// folder configures the server that opens the folder.
func (f dataFlags) folder() embedded.Config {
	return embedded.Config{Folder: f.Data, Witness: f.Witness, Log: newLogger(os.Stderr, zapcore.WarnLevel, "console")}
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
	case r.All && r.By > tags.MaxRaiseAll:
		return problem.Usage(fmt.Errorf("--by %d is too large for all tags, allowed is 1 to %d", r.By, int64(tags.MaxRaiseAll)))
	case !r.All && (r.DryRun || r.Verbose):
		return problem.Usage(errors.New("--dry-run and --verbose need --all"))
	case r.Data != "" && !r.All:
		return problem.Usage(errors.New("--data needs --all"))
	case !r.All:
		return cmp.Or(r.checkData(r.named()), messages.CheckTag(r.Tags[0]))
	}
	_, err := r.lifts()
	return cmp.Or(r.checkData(r.named()), err)
}

// lifts returns the tags that are lifted by a number.
func (r *tagRaiseCmd) lifts() (lifts []tags.Lift, err error) {
	for _, arg := range r.Tags {
		pattern, number, ok := strings.Cut(arg, "=")
		by, bad := strconv.ParseInt(number, 10, 64)
		if !ok || bad != nil || by < 1 || by > tags.MaxRaiseAll {
			return nil, problem.Usage(fmt.Errorf("%.200q: with --all, expected PATTERN=N with N from 1 to %d, as in 'ticket.*=20000'", arg, int64(tags.MaxRaiseAll)))
		}
		if err := checkName(pattern); err != nil {
			return nil, err
		}
		lifts = append(lifts, tags.Lift{Pattern: pattern, By: by})
	}
	return lifts, nil
}

// Run raises a tag, or all tags.
func (r *tagRaiseCmd) Run(ctx context.Context, in input, out output) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.All {
		return r.raiseAll(ctx, in, out)
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

// raiseAll raises all tags, of a running installation or a folder.
func (r *tagRaiseCmd) raiseAll(ctx context.Context, in input, out output) (err error) {
	source, err := r.backend()
	if err != nil {
		return err
	}
	lifts, err := r.lifts()
	if err != nil {
		return err
	}
	debug.SetGCPercent(frugal)
	done := newRaised(out, r.Verbose)
	raising := tags.Raising{By: r.By, Lifts: lifts, Built: built(), Report: done.Add}
	prompt := raisePrompt{r.By, r.DryRun, r.Yes, false}
	raising.Confirm = func(p tags.Plan) error {
		if p.Missing && !out.JSON {
			fmt.Fprintln(out, "missing: the register; new buckets have one replica: idworker provision --replicas N adds others")
		}
		return prompt.confirm(ctx, p, in, out, done)
	}
	folder := ""
	progress.Show(func() {
		if r.Data != "" {
			folder, done.Target, err = tags.RaiseFolder(ctx, r.folder(), r.Prefix, source, raising)
			return
		}
		err = r.withPinned(ctx, func(ctx context.Context, js jetstream.JetStream) (err error) {
			done.Raised, err = tags.RaiseAll(ctx, js, r.Prefix, source, raising)
			return err
		})
	}, done.progress)
	if errors.Is(err, errDryRun) {
		err = nil
	}
	if err := done.End(err); err != nil || folder == "" || out.JSON || r.DryRun {
		return err
	}
	_, err = fmt.Fprintf(out, "%s can be served again; snowflake IDs may follow later, see idworker status\n", folder)
	return err
}

// frugal has commands that handle a million tags use less memory than by
// default, at the price of some processor time.
const frugal = 20

// errDryRun ends a raise after its plan.
var errDryRun = errors.New("dry run")

// farAhead is the time without any entry after which the date is confirmed: a
// clock may be wrong.
const farAhead = 365 * 24 * time.Hour

// muchAhead is how far a known time may lie ahead of the clocks without a prompt.
const muchAhead = 24 * time.Hour

// raisePrompt shows and confirms a raise.
type raisePrompt struct {
	by          int64 // number of IDs; 0: by the time
	dryRun, yes bool
	always      bool // prompt even if there are no unexpected effects
}

// confirm shows what the raise will do, and prompts if that has effects which
// cannot be undone and which columns or programs may not expect.
func (r raisePrompt) confirm(ctx context.Context, p tags.Plan, in input, out output, done *raised) error {
	to := io.Writer(out)
	if out.JSON {
		to = io.Discard
	}
	switch at := p.Time.UTC(); {
	case p.Time.IsZero():
		fmt.Fprintf(to, "raising %s by %d\n", countOf(p), r.by)
	case p.Target > at.UnixMicro():
		fmt.Fprintf(to, "raising %s to %d, above an earlier raise (it is %s UTC)\n", countOf(p), p.Target, p.Clock.UTC().Format(time.DateTime))
	default:
		fmt.Fprintf(to, "raising %s to %d, the microseconds of %s UTC\n", countOf(p), p.Target, at.Format(time.DateTime))
	}
	newest := p.Newest.UTC().Format(time.DateTime)
	if p.Future > 0 {
		fmt.Fprintf(to, "%s is of %s UTC, %v ahead of the clock (%s UTC)\n", p.NewestOf, newest, p.Future.Round(time.Second), p.Clock.UTC().Format(time.DateTime))
	}
	if n := p.Forgotten; n.Count > 0 {
		fmt.Fprintf(to, "put back: %s that workers hold and the register has forgotten: %s\n", format.Of(int64(n.Count), "tag"), n)
	}
	if n := p.Others; n.Count > 0 {
		fmt.Fprintf(to, "left alone: %s whose biz_tag is not a tag name: %s\n", format.Of(int64(n.Count), "row"), n)
	}
	for _, process := range p.Silent {
		fmt.Fprintf(to, "not asked what it was granted: %s\n", process)
	}
	var effects []string
	add := func(n tags.Named, text string) {
		if n.Count > 0 {
			effects = append(effects, fmt.Sprintf("%s %s: %s", format.Of(int64(n.Count), "tag"), text, n))
		}
	}
	add(p.Past31, "will pass 2^31, too large for 32-bit columns")
	add(p.Past53, "will pass 2^53, inexact in JavaScript")
	add(p.UsedUp, "will have no IDs left")
	add(p.Above, "above the target, lifted further by the time since their last grant")
	for _, pattern := range p.Unmatched {
		effects = append(effects, "no tag matches "+pattern)
	}
	if !p.Time.IsZero() && !p.Newest.IsZero() && p.Time.Sub(p.Newest) > farAhead {
		effects = append(effects, "the latest entry is of "+p.Newest.UTC().Format(time.DateOnly)+": is the date right?")
	}
	if !p.Time.IsZero() && p.Future > muchAhead {
		effects = append(effects, "the target lies above "+newest+" UTC, because a clock was ahead when "+p.NewestOf+" was made: is the clock right now?")
	}
	if p.Unconfirmed {
		effects = append(effects, "only this machine's clock shows the time: is it "+p.Clock.UTC().Format(time.DateTime)+" UTC?")
	}
	if !p.Issued.IsZero() {
		effects = append(effects, "snowflake IDs may have been issued until "+p.Issued.UTC().Format(time.DateTime)+" UTC, and their bucket is lost: worker IDs wait until the time that they may have reserved is past")
	}
	for _, effect := range effects {
		fmt.Fprintln(to, effect)
	}
	switch {
	case r.dryRun:
		return cmp.Or(p.Changes(ctx, done.Add), errDryRun)
	case (len(effects) > 0 || r.always) && !r.yes:
		if err := confirm(ctx, "yes", "Type yes to confirm: ", "changed", in, out); err != nil {
			return err
		}
	}
	done.total.Store(int64(p.Tags + p.Removed))
	return nil
}

func countOf(p tags.Plan) string {
	text := format.Of(int64(p.Tags), "tag")
	if p.Removed > 0 {
		text += " and " + strconv.Itoa(p.Removed) + " removed"
	}
	return text
}

// maxLines is the number of tags that are listed without --verbose.
const maxLines = 20

// raised is the result of a raise: the changes, sorted by tag if they are few.
type raised struct {
	out     output
	verbose bool
	changes []tags.Change
	tags.Raised
	restart  []string // after a restore: processes to restart
	clock    string   // after a restore: why snowflake IDs need an operator
	fewer    []string // after a restore: resources with fewer replicas
	replicas int      // that they should have
	err      error    // of printing

	total, count atomic.Int64 // of the raise under way
}

func newRaised(out output, verbose bool) *raised {
	return &raised{out: out, verbose: verbose, changes: []tags.Change{}}
}

// Add adds a change. A single goroutine may call it at a time.
func (r *raised) Add(c tags.Change) {
	n := r.count.Add(1)
	switch {
	case r.out.JSON, !r.verbose && n <= maxLines:
		r.changes = append(r.changes, c)
	case r.verbose && r.err == nil:
		_, r.err = fmt.Fprintln(r.out, c)
	}
}

// progress describes the state on a terminal.
func (r *raised) progress() string {
	total := r.total.Load()
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("tag raise: %d of %d tags", r.count.Load(), total)
}

// End prints the changes that were not printed yet, and joins the error of the
// work with that of printing.
func (r *raised) End(failed error) error {
	slices.SortFunc(r.changes, func(a, b tags.Change) int { return cmp.Compare(a.Tag, b.Tag) })
	if r.out.JSON {
		return errors.Join(failed, r.out.encode(struct {
			Changes []tags.Change `json:"changes"`
			Floor   int64         `json:"floor,omitempty,string"` // lowest first ID of new tags
			Restart []string      `json:"restart,omitempty"`
			Silent  []string      `json:"silent,omitempty"`  // did not answer
			Older   []string      `json:"older,omitempty"`   // to restart, of version 0.2.0
			Unasked bool          `json:"unasked,omitempty"` // the user may not list processes
			Clock   string        `json:"clock,omitempty"`
			Fewer   []string      `json:"too_few_replicas,omitempty"`
		}{r.changes, r.Target, r.restart, r.Silent, r.Older, r.Unasked, r.clock, r.fewer}))
	}
	for _, c := range r.changes {
		if r.err == nil {
			_, r.err = fmt.Fprintln(r.out, c)
		}
	}
	if more := r.count.Load() - int64(len(r.changes)); more > 0 && !r.verbose && r.err == nil {
		_, r.err = fmt.Fprintf(r.out, "and %s more; --verbose lists all\n", format.Of(more, "tag"))
	}
	if r.Target > 0 && r.err == nil {
		_, r.err = fmt.Fprintf(r.out, "raised; tags created from now on begin at %d\n", r.Target)
	}
	name := func(format string, processes []string) {
		for _, process := range processes {
			if r.err == nil {
				_, r.err = fmt.Fprintf(r.out, format, process)
			}
		}
	}
	name("restart process %s: it belongs to another installation\n", r.restart)
	name("restart process %s: its version hands out what it holds from before the raise\n", r.Older)
	if r.Unasked && r.err == nil {
		_, r.err = fmt.Fprintln(r.out, "this user may not list processes, so whether they follow was not checked; run it again as a user that may")
	}
	name("no answer from process %s: it drops what it holds when it is back\n", r.Silent)
	if r.clock != "" && r.err == nil {
		_, r.err = fmt.Fprintf(r.out, "no snowflake IDs: %s\n", r.clock)
	}
	if len(r.fewer) > 0 && r.err == nil {
		_, r.err = fmt.Fprintf(r.out, "fewer than %d replicas: %s; to have as many: idworker provision --replicas %d\n", r.replicas, strings.Join(r.fewer, ", "), r.replicas)
	}
	return errors.Join(failed, r.err)
}

// built returns the time of the program's source, zero if it is unknown.
func built() time.Time {
	at, _ := time.Parse(time.RFC3339, buildOf(readBuildInfo()).Date)
	return at
}
