package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// asker sends single requests, and records their results. The Go client would
// retry.
type asker struct {
	t    *testing.T
	conn *nats.Conn
}

func (a asker) ask(tag string) (int64, error) {
	ctx, cancel := context.WithTimeout(a.t.Context(), natstest.Patience)
	defer cancel()
	reply, err := a.conn.RequestWithContext(ctx, messages.DefaultPrefix.Segment(tag), nil)
	if err != nil {
		return 0, err
	}
	ranges, err := messages.DecodeReply(reply, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

// next returns an ID as soon as a request succeeds.
func (a asker) next(tag string) (id int64) {
	a.t.Helper()
	natstest.Eventually(a.t, "an ID of "+tag, func() bool {
		var err error
		id, err = a.ask(tag)
		return err == nil
	})
	return id
}

// becomes waits for an error.
func (a asker) becomes(tag string, want error) {
	a.t.Helper()
	natstest.Eventually(a.t, tag+": "+want.Error(), func() bool {
		_, err := a.ask(tag)
		return errors.Is(err, want)
	})
}

// TestLifeOfATemplate: a template from the view of an administrator and a
// caller.
func TestLifeOfATemplate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := asker{t, s.nats.Connect(t)}
	shows := func(line string, want ...string) {
		t.Helper()
		out := strings.Split(s.must(line), "\n")
		for i := range out {
			out[i] = strings.Join(strings.Fields(out[i]), " ")
		}
		if got := strings.TrimSpace(strings.Join(out, "\n")); got != strings.Join(want, "\n") {
			t.Errorf("idworker %s:\n%s", line, got)
		}
	}
	says := func(want, line string) {
		t.Helper()
		if r := s.at(line); r.code == exitOK || !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("idworker %s: %+v, want %q", line, r, want)
		}
	}
	const header, templates = "TAG STEP NEXT ORDER USED", "TEMPLATE STEP ORDER TAGS MAX TAGS NEW PER SECOND"

	shows("tag create chat.* --template --step 10 --max-tags 2",
		"created template chat.*: step 10, order trend, at most 2 tags, at most 1,000 new tags a second")
	first := c.next("chat.1")
	if second, other := c.next("chat.1"), c.next("chat.2"); second <= first || other < 1 {
		t.Errorf("%d after %d, and %d", second, first, other)
	}
	c.becomes("chat.3", messages.ErrBusy)
	// A busy worker leaves its queue group for a while.
	natstest.Eventually(t, "the hint of get", func() bool {
		return strings.Contains(s.at("get chat.3 --timeout 1s").stderr, "raise its limit: idworker tag set 'chat.*' --max-tags N")
	})
	says("change it with: idworker tag set chat.1 --step N", "tag create chat.1")
	says("template already exists: chat.*", "tag create chat.* --template --order strict")
	says("chat.1 matches the template chat.*: the next request creates it again, above its last ID.", "tag rm chat.1")
	c.becomes("chat", messages.ErrNoTag)
	shows("tag ls", header, "", templates, "chat.* 10 trend 2 2 1000")
	if ls := s.must("tag ls chat.*"); !strings.Contains(ls, "\nchat.1 ") || !strings.Contains(ls, "\nchat.2 ") {
		t.Errorf("tag ls of what it made:\n%s", ls)
	}
	for _, pattern := range []string{"chat.*", "*.1"} {
		if r := s.at("tag create --template", pattern); r.code == exitOK {
			t.Errorf("%s was created beside chat.*", pattern)
		}
	}
	s.must("tag create day.* --template --order strict")
	for last, id := int64(0), int64(0); id < 3; last = id {
		if id = c.next("day.20261121"); id <= last {
			t.Errorf("the ID of a strict sequence is %d, after %d", id, last)
		}
	}
	natstest.Eventually(t, "an import of the export changes nothing", func() bool { // a grant may still come
		all := s.must("tag export")
		s.must("tag import", writeFile(t, all))
		return s.must("tag export") == all && strings.Contains(all, " strict\n")
	})

	shows("tag rm day.* --yes", "removed template day.*; its tags remain")
	shows("tag rm chat.* --yes", "removed template chat.*; its tags remain")
	c.becomes("chat.3", messages.ErrNoTag)
	if again := c.next("chat.1"); again <= first {
		t.Errorf("chat.1 goes on with %d, after %d", again, first)
	}
	if ls := s.must("tag ls"); !strings.Contains(ls, "\nchat.1 ") || !strings.Contains(ls, "\nday.20261121 ") || strings.Contains(ls, "TEMPLATE") {
		t.Errorf("tag ls of what templates made that were removed:\n%s", ls)
	}
	// Beside tags that keep their order.
	s.must("tag create chat.* --template --order strict --step 20")
	c.next("chat.4")
	for tag, order := range map[string]string{"chat.1": "trend", "chat.4": "strict"} {
		if ls := s.must("tag ls " + tag); !strings.Contains(ls, " "+order+" ") {
			t.Errorf("%s is not %s:\n%s", tag, order, ls)
		}
	}
}
