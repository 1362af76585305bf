package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idworker/idworker/cmd/internal/doctor"
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

	Role         doctor.Role   `help:"Whose needs to check: all (worker and loader), worker, loader, admin, enricher, auditor or caller." default:"all" enum:"all,worker,loader,admin,enricher,auditor,caller"`
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
	layout, err := (snowflakeFlags{Layout: d.Layout}).layout()
	if err := cmp.Or(err, d.resourceFlags.check(d.Prefix), d.checkTag()); err != nil {
		return err
	}
	conn, js, err := d.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	look := doctor.Doctor{
		Conn: conn, JetStream: js, Prefix: d.Prefix, Domain: d.JSDomain,
		Role: d.Role, Tag: d.Tag, Resources: d.resources(d.Prefix, partAll), Store: source,
		AllowUnsynced: d.AllowUnsynced, MaxClockSkew: d.MaxClockSkew, Layout: layout, Explain: explain,
	}
	findings := newList[finding](out, "findings")
	look.Examine(ctx, func(f doctor.Finding) {
		findings.Add(finding{results[f.Severity], f.What, f.Text})
		if f.Severity == doctor.Error {
			err = errSick
		}
	})
	return findings.End(err)
}

// checkTag refuses a tag where no tag is asked for.
func (d *doctorCmd) checkTag() error {
	switch {
	case d.Tag == "":
		return nil
	case d.Role != doctor.Role(rights.Caller):
		return problem.Usage(errors.New("--tag goes with --role caller"))
	}
	return messages.CheckTag(d.Tag)
}

// finding is a finding as doctor prints it.
type finding struct {
	Result string `json:"result"` // ok, warn or fail
	What   string `json:"what"`
	Text   string `json:"text"`
}

// results are the severities as doctor prints them.
var results = map[doctor.Severity]string{"": "ok", doctor.Warning: "warn", doctor.Error: "fail"}

// String is a line for people.
func (f finding) String() string {
	result := f.Result
	if result == "fail" {
		result = "FAIL" // to be seen among the others
	}
	return fmt.Sprintf("%-5s %s: %s", result, f.What, f.Text)
}
