package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // 450 KB, for containers, which have no time zones

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages/number"
)

// numberFlags make get print numbers of documents instead of IDs.
type numberFlags struct {
	Number string `help:"Print document numbers; the tag is their base." placeholder:"FORMAT" env:"-"`
	Zone   string `help:"Time zone of their dates (default: UTC)." placeholder:"ZONE" env:"-"`
	At     string `help:"Date of the documents, or RFC 3339 time (default: now)." placeholder:"DATE" env:"-"`
}

// checkNumber rejects conflicting flags.
func (n *numberFlags) checkNumber(otherIDs, ranges bool) error {
	switch {
	case n.Number == "" && n.Zone+n.At != "":
		return problem.Usage(errors.New("--zone and --at need --number"))
	case n.Number != "" && (otherIDs || ranges):
		return problem.Usage(errors.New("--number excludes --snowflake, --opaque and --ranges"))
	}
	return nil
}

// documents are the documents of a date, with their tag.
type documents struct {
	*number.Format
	base, tag string
	at        time.Time
}

// documents returns the documents of a base, or nil without --number.
func (n *numberFlags) documents(base string) (*documents, error) {
	if n.Number == "" {
		return nil, nil
	}
	zone, err := time.LoadLocation(cmp.Or(n.Zone, "UTC"))
	if err != nil {
		return nil, problem.Usage(fmt.Errorf("--zone: %w; give a name such as Asia/Shanghai", err))
	}
	format, err := number.NewFormat(base, n.Number, zone)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	if n.At != "" {
		if at, err = format.ParseDate(n.At); err != nil {
			return nil, fmt.Errorf("--at: %w", err)
		}
	}
	tag, err := format.Tag(at)
	return &documents{format, base, tag, at}, err
}

// number returns the number of a document with that ID.
func (d *documents) number(id int64) (string, error) { return d.Number(d.at, id) }

// explainNoTag adds the command that creates the tags of all dates.
func (d *documents) explainNoTag(err error) error {
	create := "tag create " + d.base
	if dated := d.Dated(); dated != "" {
		create = fmt.Sprintf("tag create '%s.*' --template --dated %s", d.base, dated)
	}
	return fmt.Errorf("%w; create it with: idworker %s --order strict", err, create)
}
