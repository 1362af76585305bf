package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// doctorCmd checks an installation for a role. It changes nothing.
type doctorCmd struct {
	natsFlags     `embed:"" group:"nats"`
	storeFlags    `embed:"" group:"store"`
	resourceFlags `embed:""`
	printFlags    `embed:""`

	Role         rights.Duty   `help:"Role: all, worker, loader, snowflake, admin, monitor, enricher, auditor or caller." default:"all" enum:"all,worker,loader,snowflake,admin,monitor,enricher,auditor,caller"`
	Tag          string        `help:"With --role caller: its only tag."`
	Layout       string        `help:"Expected layout of snowflake IDs." default:"default"`
	MaxClockSkew time.Duration `help:"Allowed clock difference from the server." default:"5s"`

	AllowUnsynced bool `help:"Accept servers that do not sync every write."`
}

// errChecks means that a check failed. The findings have been printed.
var errChecks = errors.New("some checks failed; see the lines with FAIL")

// Run prints the findings.
func (d *doctorCmd) Run(ctx context.Context, out output) error {
	source, err := d.backend()
	if err != nil {
		return err
	}
	layout, err := (snowflakeFlags{Layout: d.Layout}).layout()
	if err := cmp.Or(err, d.resourceFlags.check(d.Prefix), d.checkTag()); err != nil {
		return err
	}
	conn, js, err := d.connect(health.Options()...)
	if err != nil {
		return err
	}
	collector := &health.Collector{
		Prefix: d.Prefix, Dial: func() (*nats.Conn, jetstream.JetStream, error) { return conn, js, nil },
		Role: d.Role, Tag: d.Tag, Resources: d.resources(d.Prefix, partAll), Store: source,
		AllowUnsynced: d.AllowUnsynced, MaxClockSkew: d.MaxClockSkew, Layout: layout, Explain: explain,
	}
	findings := newList[finding](out, "findings")
	found := collector.Collect(ctx)
	for _, d := range found.Diagnoses() {
		findings.Add(finding{results[d.Severity], d.What, d.Text})
	}
	if found.Failed() {
		err = errChecks
	}
	return findings.End(err)
}

// checkTag rejects --tag for roles other than caller.
func (d *doctorCmd) checkTag() error {
	switch {
	case d.Tag == "":
		return nil
	case d.Role != rights.Caller:
		return problem.Usage(errors.New("--tag needs --role caller"))
	}
	return messages.CheckTag(d.Tag)
}

// finding is a finding as doctor prints it.
type finding struct {
	Result string `json:"result"` // ok, warn or fail
	What   string `json:"what"`
	Text   string `json:"text"`
}

// results maps severities to printed results.
var results = map[health.Severity]string{"": "ok", health.Warning: "warn", health.Error: "fail"}

// String formats the finding as a line.
func (f finding) String() string {
	result := f.Result
	if result == "fail" {
		result = "FAIL" // stands out among the others
	}
	return fmt.Sprintf("%-5s %s: %s", result, f.What, f.Text)
}
