package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/rights"
)

// doctorCmd checks whether a process of a role would find all that it needs. It changes
// nothing.
type doctorCmd struct {
	installation  `embed:""`
	storeFlags    `embed:""`
	resourceFlags `embed:""`

	Role         role          `help:"Whose needs to check: all (worker and loader), worker, loader, admin, enricher or auditor." default:"all" enum:"all,worker,loader,admin,enricher,auditor"`
	Layout       string        `help:"Layout of snowflake IDs that workers are given." default:"default"`
	MaxClockSkew time.Duration `help:"How far the clock may be from the server's." default:"5s"`
}

// errSick is that something is wrong; what, has been printed.
var errSick = errors.New("something is wrong, see the lines with FAIL")

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
	look, closeStore, err := d.doctor(ctx, conn, js, source)
	if err != nil {
		return err
	}
	defer closeStore()
	err = look.Examine(ctx, func(f doctor.Finding) { printFinding(out, f) })
	if errors.Is(err, doctor.ErrSick) {
		return errSick
	}
	return err
}

// doctor says what to look at for the role. The store is to be closed afterwards.
func (d *doctorCmd) doctor(ctx context.Context, conn *nats.Conn, js jetstream.JetStream, source backend.Backend) (look *doctor.Doctor, closeStore func(), err error) {
	part := partIDs
	if d.Role.hasOwnStreams() {
		part = partEnrich
	}
	look = &doctor.Doctor{
		Conn: conn, JetStream: js, Prefix: d.Prefix, Domain: d.JSDomain,
		Role: string(d.Role), Needs: d.Role.needs(d.Prefix, source),
		Resources: d.resources(d.Prefix, part, source),
		Server:    serverName(conn),
	}
	if d.Role.hasOwnStreams() { // its server is that of its streams, whose owner decides
		return look, func() {}, nil
	}
	look.Sync = func(ctx context.Context) error { return doctor.CheckSync(ctx, conn) }
	look.Storage = d.Role.is(rights.Admin)
	look.MaxClockSkew = d.MaxClockSkew
	look.Kinds = doctor.Processes(conn, js, d.Prefix)
	if d.Role.answers() {
		layout, err := (snowflakeFlags{Layout: d.Layout}).layout()
		if err != nil {
			return nil, nil, err
		}
		look.Layout = layout.String()
	}
	if !d.Role.counts() {
		return look, func() {}, nil
	}
	closeStore, err = d.lookAtStore(ctx, look, js, source)
	return look, closeStore, err
}

// serverName says which server a connection goes to, without secrets.
func serverName(conn *nats.Conn) string {
	return fmt.Sprintf("%s %s, version %s", conn.ConnectedServerName(), natsconn.Redact(conn.ConnectedUrl()), conn.ConnectedServerVersion())
}

// lookAtStore has the doctor look at the store, too. That of JetStream is a resource already.
func (d *doctorCmd) lookAtStore(ctx context.Context, look *doctor.Doctor, js jetstream.JetStream, source backend.Backend) (closeStore func(), err error) {
	look.Store = &doctor.Store{Name: source.Name(), Check: func(context.Context) error { return nil }}
	if source.Kind() == backend.JetStream {
		return func() {}, nil
	}
	segments, err := source.Open(ctx, js, d.Prefix)
	if err != nil {
		return nil, err
	}
	look.Store.CheckDurability = segments.CheckDurability
	look.Store.CheckInsert = segments.CheckInsert
	look.Store.Check = func(ctx context.Context) error {
		return errors.Join(segments.Check(ctx), segments.CheckLedger(ctx))
	}
	return func() { _ = segments.Close() }, nil
}

// printFinding prints a line, with what can be done about it.
func printFinding(out output, f doctor.Finding) {
	switch {
	case f.Err == nil:
		fmt.Fprintf(out, "ok    %s: %s\n", f.What, f.Good)
	case f.Warning:
		fmt.Fprintf(out, "warn  %s: %s\n", f.What, explain.Text(f.Err))
	default:
		fmt.Fprintf(out, "FAIL  %s: %s\n", f.What, explain.Text(f.Err))
	}
}
