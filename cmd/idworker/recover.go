package main

import (
	"bufio"
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
	"github.com/idworker/idworker/cmd/internal/recovery"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// recoverFlags are what a raise of all tags and a restore have in common.
type recoverFlags struct {
	DryRun  bool     `help:"Print the changes and make none."`
	Yes     bool     `help:"Skip the prompt."`
	Verbose bool     `help:"Print a line per tag."`
	Ignore  []string `help:"Leave out what this process reports, now and in all loaders; repeatable." placeholder:"INSTANCE" sep:"none"`

	dataFlags `embed:""`
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

// checkIgnore rejects names that no process has.
func (f recoverFlags) checkIgnore() error {
	if f.Data != "" && len(f.Ignore) > 0 {
		return problem.Usage(errors.New("--data excludes --ignore, because no process is asked"))
	}
	for _, instance := range f.Ignore {
		if err := messages.CheckTag(instance); err != nil || strings.Contains(instance, ".") {
			return problem.Usage(fmt.Errorf("--ignore: %.100q is not the name of a process", instance))
		}
	}
	return nil
}

// folder configures the server that opens the folder.
func (f dataFlags) folder() embedded.Config {
	return embedded.Config{Folder: f.Data, Witness: f.Witness, Log: newLogger(os.Stderr, zapcore.WarnLevel, "console")}
}

// frugal has commands that handle a million tags use less memory than by
// default, at the price of some processor time.
const frugal = 20

// run does what the wish says on a NATS server or in a folder, and prints the
// result. The TTL is that of a bucket of leases that a restore creates.
func (f recoverFlags) run(ctx context.Context, at tagFlags, wish recovery.Wish, leaseTTL time.Duration, in input, out output) error {
	source, err := at.backend()
	if err != nil {
		return err
	}
	debug.SetGCPercent(frugal)
	done := newRaised(out, f.Verbose)
	folder := ""
	progress.Show(func() {
		if f.Data != "" {
			var i *recovery.Site
			if i, err = recovery.OpenFolder(ctx, f.folder(), wish.Backup != nil, at.Prefix, source); err == nil {
				folder = i.Folder()
				err = errors.Join(f.recover(ctx, i, wish, resourceFlags{LeaseTTL: leaseTTL}, in, done), i.Close())
			}
			return
		}
		with := at.withPinned
		if wish.Backup != nil { // which has an ID of its own
			with = at.withPatientJetStream
		}
		err = with(ctx, func(ctx context.Context, js jetstream.JetStream) error {
			return f.recover(ctx, recovery.On(js, at.Prefix, source), wish, resourceFlags{LeaseTTL: leaseTTL}, in, done)
		})
	}, done.progress)
	if err := done.End(err); err != nil || folder == "" || out.JSON || done.Target == 0 {
		return err
	}
	_, err = fmt.Fprintf(out, "%s can be served again; snowflake IDs may follow later, see idworker status\n", folder)
	return err
}

// recover asks, makes the plan, shows it, prompts, and applies it.
func (f recoverFlags) recover(ctx context.Context, i *recovery.Site, wish recovery.Wish, resources resourceFlags, in input, done *raised) error {
	evidence, err := recovery.Ask(ctx, i, wish)
	if err != nil {
		return err
	}
	plan, err := recovery.Make(evidence, wish)
	if err == nil {
		err = plan.Look(ctx, i)
	}
	if err != nil {
		return err
	}
	to := io.Writer(done.out)
	if done.out.JSON {
		to = io.Discard
	}
	raises := true
	if wish.Backup == nil && plan.Missing {
		fmt.Fprintln(to, "missing: the register; new buckets have one replica: idworker provision --replicas N adds others")
	}
	if wish.Backup != nil {
		raises = showRestore(to, plan, wish)
	}
	if raises {
		effects := showRaise(to, plan, wish.By)
		switch {
		case f.DryRun:
			return plan.Changes(ctx, i, done.Add)
		case f.Yes:
			if err := plan.CheckClaims(); err != nil {
				return fmt.Errorf("%w; to confirm, run the command without --yes; to leave out what a process reports: --ignore INSTANCE", err)
			}
		case effects || wish.Backup != nil:
			if err := confirm(ctx, "yes", "Type yes to confirm: ", "changed", in, done.out); err != nil {
				return err
			}
		}
		done.total.Store(int64(plan.Survey.Tags + plan.Survey.Removed))
	}
	if f.DryRun {
		return nil
	}
	resources.Replicas = plan.Replicas
	plan.Resources = resources.resources(i.Prefix(), partAll)
	done.replicas = plan.Replicas
	done.ignored = plan.Ignored
	done.Result, err = recovery.Apply(ctx, i, plan, done.Add)
	if done.Clock != nil {
		done.clock = explain(done.Clock)
	}
	return errors.Join(err, done.Undone)
}

// farAhead is the time without any entry after which the date is confirmed: a
// clock may be wrong.
const farAhead = 365 * 24 * time.Hour

// muchAhead is how far a known time may lie ahead of the clocks without a prompt.
const muchAhead = 24 * time.Hour

// showRaise shows what a raise will do. It reports whether that has effects which
// cannot be undone and which columns or programs may not expect.
func showRaise(to io.Writer, p *recovery.Plan, by int64) bool {
	s := p.Survey
	switch at := p.Time.UTC(); {
	case p.Time.IsZero():
		fmt.Fprintf(to, "raising %s by %d\n", countOf(s), by)
	case p.Target > at.UnixMicro():
		fmt.Fprintf(to, "raising %s to %d, above an earlier raise (it is %s UTC)\n", countOf(s), p.Target, p.Clock.UTC().Format(time.DateTime))
	default:
		fmt.Fprintf(to, "raising %s to %d, the microseconds of %s UTC\n", countOf(s), p.Target, at.Format(time.DateTime))
	}
	newest := p.Newest.UTC().Format(time.DateTime)
	if p.Future > 0 {
		fmt.Fprintf(to, "%s is of %s UTC, %v ahead of the clock (%s UTC)\n", p.NewestOf, newest, p.Future.Round(time.Second), p.Clock.UTC().Format(time.DateTime))
	}
	if n := s.Forgotten; n.Count > 0 {
		fmt.Fprintf(to, "put back: %s that workers hold and the register has forgotten: %s\n", format.Of(int64(n.Count), "tag"), n)
	}
	if n := s.Others; n.Count > 0 {
		fmt.Fprintf(to, "left alone: %s whose biz_tag is not a tag name: %s\n", format.Of(int64(n.Count), "row"), n)
	}
	for _, process := range p.Silent {
		fmt.Fprintf(to, "not asked what it was granted: %s\n", process)
	}
	for _, instance := range p.Ignored {
		fmt.Fprintf(to, "ignored: what process %s reports\n", instance)
	}
	var effects []string
	add := func(n recovery.Named, text string) {
		if n.Count > 0 {
			effects = append(effects, fmt.Sprintf("%s %s: %s", format.Of(int64(n.Count), "tag"), text, n))
		}
	}
	add(s.Past31, "will pass 2^31, too large for 32-bit columns")
	add(s.Past53, "will pass 2^53, inexact in JavaScript")
	add(s.UsedUp, "will have no IDs left")
	add(s.Above, "above the target, lifted further by the time since their last grant")
	for _, pattern := range s.Unmatched {
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
	if err := p.CheckClaims(); err != nil {
		effects = append(effects, err.Error()+": is that right? Otherwise leave it out: --ignore INSTANCE")
	}
	for _, effect := range effects {
		fmt.Fprintln(to, effect)
	}
	return len(effects) > 0
}

func countOf(s recovery.Survey) string {
	text := format.Of(int64(s.Tags), "tag")
	if s.Removed > 0 {
		text += " and " + strconv.Itoa(s.Removed) + " removed"
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
	recovery.Result
	ignored  []string
	clock    string // after a restore: why snowflake IDs need an operator
	replicas int    // that resources should have
	err      error  // of printing

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
			Ignored []string      `json:"ignored,omitempty"` // as --ignore asks
			Silent  []string      `json:"silent,omitempty"`  // did not answer
			Older   []string      `json:"older,omitempty"`   // to restart, of version 0.2.0
			Unasked bool          `json:"unasked,omitempty"` // the user may not list processes
			Clock   string        `json:"clock,omitempty"`
			Fewer   []string      `json:"too_few_replicas,omitempty"`
		}{r.changes, r.Target, r.Restart, r.ignored, r.Silent, r.Older, r.Unasked, r.clock, r.Fewer}))
	}
	to := bufio.NewWriter(r.out) // Flush returns the first error
	for _, c := range r.changes {
		_, _ = fmt.Fprintln(to, c)
	}
	if more := r.count.Load() - int64(len(r.changes)); more > 0 && !r.verbose {
		_, _ = fmt.Fprintf(to, "and %s more; --verbose lists all\n", format.Of(more, "tag"))
	}
	if r.Target > 0 {
		_, _ = fmt.Fprintf(to, "raised; tags created from now on begin at %d\n", r.Target)
	}
	for _, process := range r.Restart {
		_, _ = fmt.Fprintf(to, "restart process %s: it belongs to another installation\n", process)
	}
	for _, process := range r.Older {
		_, _ = fmt.Fprintf(to, "restart process %s: its version hands out what it holds from before the raise\n", process)
	}
	if r.Unasked {
		_, _ = fmt.Fprintln(to, "this user may not list processes, so whether they follow was not checked; run it again as a user that may")
	}
	for _, process := range r.Silent {
		_, _ = fmt.Fprintf(to, "no answer from process %s: it drops what it holds when it is back\n", process)
	}
	if r.clock != "" {
		_, _ = fmt.Fprintf(to, "no snowflake IDs: %s\n", r.clock)
	}
	if len(r.Fewer) > 0 {
		_, _ = fmt.Fprintf(to, "fewer than %d replicas: %s; to have as many: idworker provision --replicas %d\n", r.replicas, strings.Join(r.Fewer, ", "), r.replicas)
	}
	return errors.Join(failed, cmp.Or(r.err, to.Flush()))
}

// built returns the time of the program's source, zero if it is unknown.
func built() time.Time {
	at, _ := time.Parse(time.RFC3339, buildOf(readBuildInfo()).Date)
	return at
}
