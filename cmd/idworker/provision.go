package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/witness"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// provisionCmd creates an installation's streams and buckets, so that processes
// that serve need no right to.
type provisionCmd struct {
	natsFlags  `embed:"" group:"nats"`
	storeFlags `embed:"" group:"store"`

	resourceFlags `embed:""`
	birthFlag     `embed:""`
	printFlags    `embed:""`

	Outage *time.Duration `help:"How long snowflake IDs outlive JetStream: 1m to 168h, or 0 (default: 1h for a new installation, or unchanged)." placeholder:"1h"`

	Part provisionPart `help:"Part: ids, snowflake, enrich or all." default:"all" enum:"all,ids,snowflake,enrich"`
}

// provisionPart selects a part of an installation.
type provisionPart string

const (
	partAll       provisionPart = "all"
	partIDs       provisionPart = "ids"
	partSnowflake provisionPart = "snowflake" // what --role snowflake needs
	partEnrich    provisionPart = "enrich"
)

// Run prints a line per resource. It continues after a failure, so that a run
// reports all of them.
func (p *provisionCmd) Run(ctx context.Context, out output) error {
	if _, err := p.backend(); err != nil {
		return err
	}
	if err := cmp.Or(p.resourceFlags.check(p.Prefix), p.checkPin(), p.checkNew(), p.checkOutage()); err != nil {
		return err
	}
	log := newLogger(os.Stderr, zapcore.WarnLevel, "console")
	done := newList[provisioned](out, "resources")
	if p.Part != partAll {
		return done.End(p.provision(ctx, log, p.Part, done.Add))
	}
	ids := p.provision(ctx, log, partIDs, done.Add)
	if ids != nil && !isDenied(ids) {
		return done.End(ids)
	}
	enriching := p.provision(ctx, log, partEnrich, done.Add)
	switch {
	case ids == nil && isDenied(enriching):
		enriching = onlyPart(partIDs, partEnrich, enriching)
	case ids != nil && enriching == nil:
		ids = onlyPart(partEnrich, partIDs, ids)
	case ids != nil:
		enriching = nil // the same again
	}
	return done.End(errors.Join(ids, enriching))
}

// checkNew rejects --new for a part that makes no installation.
func (p *provisionCmd) checkNew() error {
	if p.New && p.Part == partEnrich {
		return problem.Usage(errors.New("--new needs --part all, ids or snowflake"))
	}
	return nil
}

// checkOutage rejects an outage that is out of bounds, or of a part without worker
// IDs.
func (p *provisionCmd) checkOutage() error {
	if p.Outage == nil {
		return nil
	}
	if p.Part == partEnrich {
		return problem.Usage(errors.New("--outage needs --part all, ids or snowflake"))
	}
	if err := lease.CheckOutage(*p.Outage); err != nil {
		return problem.Usage(fmt.Errorf("--outage: %w", err))
	}
	return nil
}

// showInstallation reports the installation's ID, for --installation.
func showInstallation(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, add func(provisioned)) error {
	id, err := identify(ctx, js, prefix)
	if err == nil {
		add(provisioned{"installation", id})
	}
	return err
}

// identify returns the installation's ID, and makes one if it is new.
func identify(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (id string, err error) {
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return "", err
	}
	id, _, err = agreed.Installation(ctx, kv.HasEntries(register.BucketName(prefix)), kv.HasEntries(lease.ClockBucketName(prefix)))
	return id, err
}

// newOutage is the outage of a new installation.
const newOutage = lease.DefaultOutage

// declareOutage sets the installation's outage: to the flag's, or to the default
// if no process has had a worker ID. It reports the outage, if any.
func (p *provisionCmd) declareOutage(ctx context.Context, js jetstream.JetStream, add func(provisioned)) error {
	if p.Outage == nil {
		for _, key := range []string{lease.OutageKey, lease.LayoutKey, lease.ClockIDKey} {
			value, known, err := agreement.Lookup(ctx, js, p.Prefix, key)
			if known && key == lease.OutageKey {
				add(provisioned{key, value})
			}
			if err != nil || known {
				return err
			}
		}
		p.Outage = new(newOutage)
	}
	set, err := lease.DeclareOutage(ctx, js, p.Prefix, *p.Outage)
	if err == nil {
		add(provisioned{"outage", set.String()})
	}
	return err
}

// isDenied reports whether another user may have the right that was missing.
func isDenied(err error) bool {
	denied := new(natsconn.DeniedError)
	return errors.As(err, &denied)
}

// onlyPart explains the error of a user who may create one of the parts.
func onlyPart(may, mayNot provisionPart, err error) error {
	return fmt.Errorf("part %s: %w; part %s is done, and this user may only run: idworker provision --part %s", mayNot, err, may, may)
}

// provision creates a part. The server denies a request silently, so each part
// has its own connection.
func (p *provisionCmd) provision(ctx context.Context, log *zap.Logger, part provisionPart, add func(provisioned)) error {
	return p.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) (failed error) {
		if part == partIDs || part == partSnowflake {
			if err := p.begin(ctx, js, log); err != nil {
				return err
			}
			if part == partIDs && !p.New {
				if err := checkNotLost(ctx, js, p.Prefix); err != nil {
					return err
				}
			}
			defer func() {
				if failed == nil && part == partIDs {
					failed = register.Record(ctx, js, p.Prefix)
				}
				if failed == nil {
					failed = p.declareOutage(ctx, js, add)
				}
				if failed == nil {
					failed = showInstallation(ctx, js, p.Prefix, add)
				}
			}()
		}
		for _, r := range p.resources(p.Prefix, part) {
			var did string
			err := kv.WithRetry(ctx, log, func(ctx context.Context) (err error) {
				if r.String() == "bucket "+register.BucketName(p.Prefix) { // which comes after the ID
					if _, err := identify(ctx, js, p.Prefix); err != nil {
						return err
					}
				}
				did, err = r.Apply(ctx, js)
				return err
			})
			if err == nil {
				add(provisioned{r.String(), did})
				continue
			}
			failed = errors.Join(failed, fmt.Errorf("%s: %w", r, err))
			if ctx.Err() != nil {
				break
			}
		}
		return failed
	})
}

// begin admits the installation. With --new and its ID, an earlier attempt may
// have made it, perhaps in part. Of serve, only the first start may have --new:
// as a setting of each start, it would make lost data a new installation.
func (p *provisionCmd) begin(ctx context.Context, js jetstream.JetStream, log *zap.Logger) error {
	if p.New && p.Installation != "" && p.pinFlag.admit(ctx, js, p.Prefix) == nil {
		return nil
	}
	return p.admit(ctx, js, p.Prefix, p.Replicas, 0, p.shelf().Notes(), log)
}

// errLost tells how to get the register back, instead of an empty one.
var errLost = problem.New(problem.RegisterGone, "its installation is missing on this NATS server; check that it is the right one")

// checkNotLost refuses to make an installation whose tags begin at 1, while
// processes that grant or answer for tags run: theirs was lost.
func checkNotLost(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	_, err := register.Bucket(prefix, 0).Look(ctx, js)
	if !errors.Is(err, jetstream.ErrStreamNotFound) || !natsconn.Allowed(ctx, js, worker.ListProcessesRights()) {
		return nil // other errors are those of its creation
	}
	running, _ := worker.ListProcesses(ctx, js.Conn(), prefix) // without an answer, there is no evidence
	for _, p := range running {
		if p.Role != worker.RoleSnowflake {
			return fmt.Errorf("process %s on host %s runs, but %w", p.Instance, p.Host, errLost)
		}
	}
	return nil
}

// provisioned is the report about a resource.
type provisioned struct {
	Resource string `json:"resource"`
	Result   string `json:"result"` // the change
}

// String formats the report as a line.
func (p provisioned) String() string { return p.Resource + ": " + p.Result }

// resourceFlags configure streams and buckets.
type resourceFlags struct {
	Replicas int           `help:"Replicas, 1 to 5 (default: 1, or unchanged)."`
	LeaseTTL time.Duration `help:"Lease time of worker IDs, at least 15s." default:"30s"`
}

// check rejects flags that a worker would reject.
func (f resourceFlags) check(prefix messages.Prefix) error {
	if err := (worker.Config{Prefix: prefix, Replicas: f.Replicas}).WithDefaults().Check(); err != nil {
		return err
	}
	if err := lease.CheckTTL(f.LeaseTTL); err != nil {
		return problem.Usage(fmt.Errorf("--lease-ttl: %w", err))
	}
	return nil
}

// resources returns the resources of a part.
func (f resourceFlags) resources(prefix messages.Prefix, part provisionPart) (all []kv.Resource) {
	if part == partIDs || part == partAll {
		all = worker.Resources(prefix, f.Replicas)
	}
	if part != partEnrich {
		all = append(all, lease.Resources(prefix, f.LeaseTTL, f.Replicas)...)
	}
	if part == partIDs || part == partAll {
		all = append(all, register.Bucket(prefix, f.Replicas))
	}
	if part == partEnrich || part == partAll {
		all = append(all, enrich.Bucket(prefix, f.Replicas))
	}
	return all
}

// pinFlag names the installation that NATS must have, so that lost data does
// not become a new installation whose IDs begin at 1.
type pinFlag struct {
	Installation string `help:"Refuse any installation but the one with this ID." placeholder:"ID"`
}

func (p pinFlag) checkPin() error {
	if p.Installation == "" {
		return nil
	}
	if err := agreement.CheckID(p.Installation); err != nil {
		return problem.Usage(fmt.Errorf("--installation: %w", err))
	}
	return nil
}

// admit checks the pin, if any. It changes nothing.
func (p pinFlag) admit(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	if p.Installation == "" {
		return nil
	}
	return agreement.CheckPin(ctx, js, prefix, p.Installation)
}

// birthFlag makes the birth of an installation explicit.
type birthFlag struct {
	pinFlag `embed:""`
	New     bool `help:"Make a new installation, with the ID of --installation if given; refused if buckets of another exist."`
}

var errNotNew = problem.New(problem.Invalid, "--new is for a new installation")

// admit checks the pin and the witnesses of this machine, or makes a new
// installation, with that outage unless it is 0.
func (b birthFlag) admit(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int, outage time.Duration, notes []witness.Note, log *zap.Logger) error {
	if !b.New {
		if err := b.pinFlag.admit(ctx, js, prefix); err != nil {
			return err
		}
		return checkNotes(ctx, js, prefix, notes, log)
	}
	for _, r := range (resourceFlags{}).resources(prefix, partAll) {
		if !strings.HasPrefix(r.String(), "bucket ") || !natsconn.Allowed(ctx, js, rights.Publish(r.InfoSubject())) {
			continue // without entries, or another user's
		}
		_, err := r.Look(ctx, js)
		switch older := new(kv.OlderError); {
		case errors.Is(err, jetstream.ErrStreamNotFound):
		case errors.As(err, &older):
			return fmt.Errorf("%w: %w", errNotNew, older)
		case errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
			return err
		default:
			return fmt.Errorf("%w: %s exists", errNotNew, r)
		}
	}
	if err := agreement.Begin(ctx, js, prefix, max(1, replicas), b.Installation); err != nil || outage == 0 {
		return err
	}
	return lease.BeginOutage(ctx, js, prefix, outage)
}
