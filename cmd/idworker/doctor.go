package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/backend"
	"github.com/idworker/idworker/internal/natsconn"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/worker"
)

// doctorCmd looks whether a process of a role would find all that it needs. It changes
// nothing.
type doctorCmd struct {
	installation  `embed:""`
	storeFlags    `embed:""`
	resourceFlags `embed:""`

	Role         role          `help:"Whose needs to look at: all (worker and loader), worker, loader, admin or enricher." default:"all" enum:"all,worker,loader,admin,enricher"`
	Layout       string        `help:"Layout of snowflake IDs that workers are given." default:"default"`
	MaxClockSkew time.Duration `help:"How far the clock may be from the server's." default:"5s"`
}

// errSick is that something is wrong; what, has been printed.
var errSick = errors.New("something is wrong, see the lines with FAIL")

// findings are what a doctor prints, a line each.
type findings struct {
	out  output
	sick bool

	cancel atomic.Pointer[context.CancelCauseFunc] // of the question under way
}

// refused ends the question under way: one that is refused is never answered.
func (f *findings) refused(_ *nats.Conn, _ *nats.Subscription, err error) {
	if cancel := f.cancel.Load(); cancel != nil && errors.Is(err, nats.ErrPermissionViolation) {
		(*cancel)(err)
	}
}

// lookTimeout bounds one question.
const lookTimeout = 5 * time.Second

// ask asks one question, within lookTimeout.
func (f *findings) ask(ctx context.Context, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	ctx, cancelCause := context.WithCancelCause(ctx)
	defer cancelCause(nil)
	f.cancel.Store(&cancelCause)
	defer f.cancel.Store(nil)
	err := question(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, nats.ErrPermissionViolation) {
		return cause
	}
	return err
}

// note prints a finding: FAIL if err is not nil.
func (f *findings) note(what string, err error, good string) {
	if err != nil {
		f.sick = true
		fmt.Fprintf(f.out, "FAIL  %s: %v\n", what, err)
		return
	}
	fmt.Fprintf(f.out, "ok    %s: %s\n", what, good)
}

// warn prints something that may be wrong.
func (f *findings) warn(what, why string) { fmt.Fprintf(f.out, "warn  %s: %s\n", what, why) }

// Run prints what is right and what is wrong.
func (d *doctorCmd) Run(ctx context.Context, out output) error {
	source, err := d.backend()
	if err != nil {
		return err
	}
	if err := d.resourceFlags.check(d.Prefix); err != nil {
		return err
	}
	conn, js, err := d.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()

	f := &findings{out: out}
	conn.SetErrorHandler(f.refused)
	if err := inbox(conn); err != nil {
		f.note("inbox", err, "")
		return errSick // no question would be answered
	}
	d.server(ctx, f, conn)
	d.rights(ctx, f, conn, source.Kind())
	d.examine(ctx, f, js, source.Kind())
	if d.Role != roleEnricher {
		d.clock(ctx, f, js)
		d.layout(ctx, f, js)
		d.database(ctx, f, js, source)
	}
	if f.sick {
		return errSick
	}
	return nil
}

// inbox reports whether this user can receive answers.
func inbox(conn *nats.Conn) error {
	sub, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only
	if err := conn.FlushTimeout(lookTimeout); err != nil {
		return err
	}
	if last := conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
		return advise(natsconn.Denied(last, nil))
	}
	return nil
}

// server looks at the server: which one it is, and whether it keeps what it is told.
func (d *doctorCmd) server(ctx context.Context, f *findings, conn *nats.Conn) {
	f.note("server", nil, fmt.Sprintf("%s %s, version %s", conn.ConnectedServerName(), natsconn.Redact(conn.ConnectedUrl()), conn.ConnectedServerVersion()))
	if d.Role == roleEnricher {
		return // its server is that of its streams, whose matter this is
	}
	err := f.ask(ctx, func(ctx context.Context) error { return checkSync(ctx, conn) })
	if errors.Is(err, worker.ErrSyncUnknown) || errors.Is(err, nats.ErrPermissionViolation) {
		f.warn("sync", err.Error()+", to this user; make sure of sync_interval: always, or let the user ask, see nats.conf")
		return
	}
	f.note("sync", err, "every write is on disk before it is acknowledged")
}

// examine looks at streams and buckets.
func (d *doctorCmd) examine(ctx context.Context, f *findings, js jetstream.JetStream, kind backend.Kind) {
	part := partIDs
	if d.Role == roleEnricher {
		part = partEnrich
	}
	absent := false
	for _, r := range d.resources(d.Prefix, part, kind) {
		if !d.Role.uses(r.String(), d.Prefix) {
			continue
		}
		var difference string
		err := f.ask(ctx, func(ctx context.Context) (err error) {
			difference, err = r.Look(ctx, js)
			return err
		})
		if missing(err) {
			absent = true
			err = fmt.Errorf("%w; an administrator makes it: idworker provision", err)
		}
		if err == nil && difference != "" {
			f.warn(r.String(), "provision with these flags would change it: "+difference)
			continue
		}
		f.note(r.String(), err, "as it should be")
	}
	if d.Role != roleEnricher && !absent {
		err := f.ask(ctx, func(ctx context.Context) error { return d.Role.checkSafe(ctx, js, d.Prefix, kind) })
		f.note("buckets", err, "keep what they are told")
	}
}

// checkSafe finds out whether the buckets in which the role counts can be trusted to keep
// what they are told.
func (r role) checkSafe(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, kind backend.Kind) error {
	if r != roleLoader {
		if err := lease.CheckBuckets(ctx, js, prefix); err != nil {
			return err
		}
	}
	if r == roleWorker || kind != backend.JetStream {
		return nil
	}
	_, err := jetstreamstore.Open(ctx, js, prefix)
	return err
}

func missing(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)
}

// clock compares this machine's clock with the server's.
func (d *doctorCmd) clock(ctx context.Context, f *findings, js jetstream.JetStream) {
	var stream jetstream.Stream
	before := time.Now()
	err := f.ask(ctx, func(ctx context.Context) (err error) {
		stream, err = js.Stream(ctx, "KV_"+agreement.BucketName(d.Prefix))
		return err
	})
	if err != nil {
		return // told already
	}
	off := time.Since(before)/2 + before.Sub(stream.CachedInfo().TimeStamp)
	if off.Abs() > d.MaxClockSkew {
		err = fmt.Errorf("%v ahead of the server's, allowed is %v", off.Round(time.Millisecond), d.MaxClockSkew)
	}
	f.note("clock", err, fmt.Sprintf("%v ahead of the server's", off.Round(time.Millisecond)))
}

// layout compares the installation's layout with the one that workers are given.
func (d *doctorCmd) layout(ctx context.Context, f *findings, js jetstream.JetStream) {
	if d.Role == roleLoader {
		return
	}
	want, err := (snowflakeFlags{Layout: d.Layout}).layout()
	if err != nil {
		f.note("layout", err, "")
		return
	}
	var have string
	err = f.ask(ctx, func(ctx context.Context) (err error) {
		have, err = lease.InstalledLayout(ctx, js, d.Prefix)
		return err
	})
	switch {
	case missing(err):
		return // told already
	case err == nil && have == "":
		f.note("layout", nil, "none yet, the first worker sets it")
		return
	case err == nil && have != want.String():
		err = fmt.Errorf("the installation has %.100s, --layout is %s", have, want)
	}
	f.note("layout", err, have)
}

// database looks at the segment store, for those who use it.
func (d *doctorCmd) database(ctx context.Context, f *findings, js jetstream.JetStream, source backend.Backend) {
	if d.Role == roleWorker {
		return
	}
	if source.Kind() == backend.JetStream {
		f.note("store", d.sameStore(ctx, f, js, source.Name()), "jetstream")
		return
	}
	segments, err := source.Open(ctx, js, d.Prefix)
	if err != nil {
		f.note("store", err, "")
		return
	}
	defer func() { _ = segments.Close() }()
	if err = d.sameStore(ctx, f, js, source.Name()); err == nil {
		err = f.ask(ctx, segments.Check)
	}
	f.note("store", err, source.Name()+" answers, its table is as it should be")
}

func (d *doctorCmd) sameStore(ctx context.Context, f *findings, js jetstream.JetStream, name string) error {
	return f.ask(ctx, func(ctx context.Context) error { return worker.CheckStore(ctx, js, d.Prefix, name) })
}
