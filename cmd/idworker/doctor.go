package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// doctorCmd checks that a process of a role has what it needs. It changes nothing.
type doctorCmd struct {
	installation  `embed:"" group:"nats"`
	storeFlags    `embed:"" group:"store"`
	resourceFlags `embed:""`
	printFlags    `embed:""`

	Role         role          `help:"Whose needs to check: all (worker and loader), worker, loader, admin, enricher, auditor or caller." default:"all" enum:"all,worker,loader,admin,enricher,auditor,caller"`
	Tag          string        `help:"With --role caller: one that asks for IDs of this tag, and no others."`
	Layout       string        `help:"Layout of snowflake IDs that workers are given." default:"default"`
	MaxClockSkew time.Duration `help:"How far the clock may be from the server's." default:"5s"`

	AllowUnsynced bool `help:"Servers that do not sync every write, or do not say so, are all right."`
}

// errSick is that something is wrong; what, has been printed.
var errSick = errors.New("something is wrong, see the lines with FAIL")

// Run prints what is right and what is wrong.
func (d *doctorCmd) Run(ctx context.Context, out output) error {
	source, err := d.backend()
	if err != nil {
		return err
	}
	if err := cmp.Or(d.resourceFlags.check(d.Prefix), d.checkTag()); err != nil {
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
	findings := report.NewList[finding](out, "findings")
	err = look.Examine(ctx, func(f doctor.Finding) { findings.Add(explained(f)) })
	if errors.Is(err, doctor.ErrSick) {
		err = errSick
	}
	return findings.End(err)
}

// checkTag refuses a tag where no tag is asked for.
func (d *doctorCmd) checkTag() error {
	switch {
	case d.Tag == "":
		return nil
	case !d.Role.is(rights.Caller):
		return problem.Usage(errors.New("--tag goes with --role caller"))
	}
	return messages.CheckTag(d.Tag)
}

// doctor says what to look at for the role. The store is to be closed afterwards.
func (d *doctorCmd) doctor(ctx context.Context, conn *nats.Conn, js jetstream.JetStream, source backend.Backend) (look *doctor.Doctor, closeStore func(), err error) {
	part := partIDs
	if d.Role.hasOwnStreams() {
		part = partEnrich
	}
	look = &doctor.Doctor{
		Conn: conn, JetStream: js, Prefix: d.Prefix, Domain: d.JSDomain,
		Role: string(d.Role), Needs: d.Role.needs(d.Prefix),
		Resources: d.resources(d.Prefix, part), // a caller has the right to open none
		Server:    serverName(conn),
	}
	if d.Role.is(rights.Caller) {
		look.Trials = doctor.Requests(conn, d.Prefix, d.Tag)
		return look, func() {}, nil
	}
	if d.Role.hasOwnStreams() { // its server is that of its streams, whose owner decides
		return look, func() {}, nil
	}
	look.Sync = func(ctx context.Context) error { return doctor.CheckSync(ctx, conn) }
	look.AllowUnsynced = d.AllowUnsynced
	look.Storage = d.Role.is(rights.Admin)
	look.MaxClockSkew = d.MaxClockSkew
	look.Processes = true
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
	closeStore = d.lookAtStore(ctx, look, js, source)
	return look, closeStore, nil
}

// serverName says which server a connection goes to, without secrets.
func serverName(conn *nats.Conn) string {
	return fmt.Sprintf("%s %s, version %s", conn.ConnectedServerName(), natsconn.Redact(conn.ConnectedUrl()), conn.ConnectedServerVersion())
}

// lookAtStore has the doctor look at the store, too. A right that is missing to
// open it is a finding, as any other error is.
func (d *doctorCmd) lookAtStore(ctx context.Context, look *doctor.Doctor, js jetstream.JetStream, source backend.Backend) (closeStore func()) {
	look.Store = &doctor.Store{Name: source.Name(), Check: func(context.Context) error { return nil }}
	ctx, explainDenied := natsconn.WhenDenied(ctx, look.Conn)
	segments, err := source.Open(ctx, backend.Options{JetStream: js, Prefix: d.Prefix})
	if denied := explainDenied(err); err != nil {
		err = denied
	}
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound): // it is a resource, and is reported
		return func() {}
	case err != nil:
		look.Store.Check = func(context.Context) error { return err }
		return func() {}
	}
	if database := segments.Database; database != nil {
		look.Store.Check, look.Store.CheckDurability, look.Store.CheckFirst = database.Check, database.Durability, database.CheckFirst
	}
	return func() { _ = segments.Close() }
}

// finding is what doctor says of one thing.
type finding struct {
	Result string `json:"result"` // ok, warn or fail
	What   string `json:"what"`
	Text   string `json:"text"` // with what can be done about it
}

func explained(f doctor.Finding) finding {
	switch {
	case f.Err == nil:
		return finding{"ok", f.What, f.Good}
	case f.Warning:
		return finding{"warn", f.What, explain(f.Err)}
	}
	return finding{"fail", f.What, explain(f.Err)}
}

// String is a line for people.
func (f finding) String() string {
	result := f.Result
	if result == "fail" {
		result = "FAIL" // to be seen among the others
	}
	return fmt.Sprintf("%-5s %s: %s", result, f.What, f.Text)
}
