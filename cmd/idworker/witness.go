package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/witness"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// A loader at the user's own servers keeps a witness, if it can. Package witness
// decides what the witnesses of this machine mean for a start.

// shelf returns where this machine keeps the witnesses about an installation; the
// zero shelf if the environment names no folder.
func (i natsFlags) shelf() witness.Shelf {
	folder, err := witness.Folder()
	if err != nil {
		return witness.Shelf{}
	}
	shelf := witness.Shelf{Folder: folder, Prefix: i.Prefix}
	if i.Server == "" && i.Context != "" {
		shelf.Address = witness.Address(i.Context, nil, i.JSDomain)
	} else {
		shelf.Address = witness.Address("", natsconn.Hosts(cmp.Or(i.Server, nats.DefaultURL)), i.JSDomain)
	}
	return shelf
}

// notes returns the witnesses that may contradict a new installation.
func (s *serveCmd) notes() []witness.Note {
	all := s.shelf().Notes()
	if s.Witness == "" {
		return all
	}
	own, err := register.OpenWitness(s.Witness)
	if err != nil {
		return all // which the start reports
	}
	if floor, noted, err := own.Floor(s.Prefix); err == nil && floor > 0 {
		all = append(all, witness.Note{Path: s.Witness, Noted: noted})
	}
	return all
}

// checkNotes refuses to make an installation beside a witness of one that was
// here. If only a part of it is missing, the start reports that later.
func checkNotes(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, notes []witness.Note, log *zap.Logger) error {
	if len(notes) == 0 {
		return nil
	}
	here, err := agreement.LookupID(ctx, js, prefix)
	if err != nil {
		return err
	}
	switch witness.Judge(here, notes) {
	case witness.Warn:
		log.Warn("another installation was here before", zap.String("installation", here), zap.String("before", notes[0].Installation),
			zap.Time("noted", notes[0].Noted), zap.String("witness", notes[0].Path),
			zap.String("risk", "IDs come twice if this one continues tables or callers of the other"))
	case witness.Refuse:
		bucket := agreement.NewBucket(prefix, 1, kv.HasEntries(register.BucketName(prefix)), kv.HasEntries(lease.ClockBucketName(prefix)))
		_, err := bucket.Look(ctx, js)
		if partly := new(kv.OlderError); !errors.As(err, &partly) {
			return &witness.LostError{Prefix: prefix, Note: notes[0]}
		}
	}
	return nil
}

// judgeWitness finds out whether a loader's witness counts.
func (d *daemon) judgeWitness(ctx context.Context, cfg worker.Config) {
	shelf, path := d.cfg.shelf, d.cfg.witness
	switch {
	case !cfg.Role.Loads():
	case d.embedded != nil:
		d.unwitnessed = witness.Problem(filepath.Dir(d.witness.Path()), d.embedded.Folder())
	case path != "":
		d.unwitnessed = witness.Problem(filepath.Dir(path), dataHere(ctx, cfg))
	case shelf.Folder == "":
		d.unwitnessed = witness.ErrNoFolder.Error()
	default:
		if err := shelf.Make(); err != nil {
			d.unwitnessed = err.Error()
			return
		}
		d.unwitnessed = witness.Problem(shelf.Folder, dataHere(ctx, cfg))
	}
}

// dataHere returns the data folder of the NATS server, if there is one server,
// on this machine.
func dataHere(ctx context.Context, cfg worker.Config) string {
	host, _, _ := net.SplitHostPort(cfg.Control.ConnectedAddr())
	if !isLoopback(host) || !mayAskServers(ctx, cfg) {
		return ""
	}
	return durability.DataFolder(ctx, cfg.Control)
}

func mayAskServers(ctx context.Context, cfg worker.Config) bool {
	return natsconn.Allowed(ctx, cfg.JetStream, rights.Publish(durability.AskServers))
}

// checkUnsynced refuses to be the first loader of an installation if the servers
// are known to lose writes in a power failure, and no witness would show that.
func (d *daemon) checkUnsynced(ctx context.Context, cfg worker.Config) error {
	if !cfg.Role.Loads() || d.cfg.allowUnsynced || d.unwitnessed == "" {
		return nil
	}
	_, used, err := agreement.Lookup(ctx, cfg.JetStream, cfg.Prefix, agreement.StoreKey)
	if err != nil || used || !mayAskServers(ctx, cfg) {
		return err
	}
	if err := health.CheckSync(ctx, cfg.Control); errors.Is(err, durability.ErrNoSync) {
		return fmt.Errorf("%w, and there would be no witness of what a power failure loses: %s", err, d.unwitnessed)
	}
	return nil
}

// warnUnwitnessed warns of what [daemon.checkUnsynced] lets pass, because the
// installation has been used before.
func (d *daemon) warnUnwitnessed() {
	if lazy := d.synced.answered && !d.synced.synced; lazy && !d.cfg.allowUnsynced && d.unwitnessed != "" {
		d.cfg.log.Warn("no witness that counts", zap.String("reason", d.unwitnessed),
			zap.String("risk", "duplicate IDs after a power failure"), zap.String("hint", "name a file on another disk with --witness"))
	}
}

// openWitness opens the witness of a loader at the user's own servers. Without a
// place for it there is none.
func (d *daemon) openWitness(ctx context.Context, cfg worker.Config) error {
	agreed, err := agreement.Open(ctx, cfg.JetStream, cfg.Prefix)
	if err != nil {
		return err
	}
	id, created, err := agreed.Installation(ctx)
	if err != nil {
		return err
	}
	shelf := d.cfg.shelf
	if d.cfg.witness != "" {
		d.witness, err = register.OpenWitness(d.cfg.witness, shelf.Evidence(id, created)...)
		return err
	}
	if shelf.Folder != "" {
		file, err := shelf.Open(id, created)
		switch {
		case err == nil:
			d.witness = file.Witness
			d.onClose(file.Close)
			return nil
		case errors.Is(err, register.ErrWitness):
			return err
		}
		d.unwitnessed = err.Error()
	}
	cfg.Log.Info("no witness", zap.String("reason", d.unwitnessed), zap.String("hint", "name a file on a lasting disk with --witness"))
	return nil
}

// witnessStats is the witness in the report.
func (d *daemon) witnessStats() *worker.WitnessStats {
	stats := &worker.WitnessStats{Problem: d.unwitnessed}
	if d.witness != nil {
		stats.Path = d.witness.Path()
	}
	return stats
}
