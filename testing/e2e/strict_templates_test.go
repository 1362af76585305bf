package e2e

import (
	"strings"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// templateOrder asks for IDs of one tag whose templates change.
type templateOrder struct {
	*testing.T
	url     string
	ask     func() int64
	highest int64
}

func startTemplateOrder(t *testing.T, tag string) *templateOrder {
	t.Helper()
	ns := natstest.Start(t)
	startWorker(t, ns.URL())
	startWorker(t, ns.URL())
	caller := connect(t, ns.URL())
	return &templateOrder{T: t, url: ns.URL(), ask: func() int64 {
		t.Helper()
		msg, err := caller.Request(messages.DefaultPrefix.Segment(tag), nil, readyWithin)
		if err != nil {
			t.Fatal(err)
		}
		ranges, err := messages.DecodeReply(msg, 1)
		if err != nil {
			t.Fatal(err)
		}
		return ranges[0].First
	}}
}

func (o *templateOrder) tag(command string, args ...string) {
	o.Helper()
	must(o.T, append([]string{"tag", command, "--server", o.url}, args...)...)
}

// strict asks n times, and each answer has to be above all before.
func (o *templateOrder) strict(n int) {
	o.Helper()
	for range n {
		id := o.ask()
		if id <= o.highest {
			o.Fatalf("%d after %d was answered, and the tag is strict", id, o.highest)
		}
		o.highest = id
	}
}

// trend asks n times, of whichever worker.
func (o *templateOrder) trend(n int) {
	o.Helper()
	for range n {
		o.highest = max(o.highest, o.ask())
	}
}

// TestStrictTemplateMadeAgain removes a strict template, so that tags fall to a less specific ordinary one, and
// makes it again. It is refused as long as there are such tags. When they are gone, and come back, whoever
// owned them does not go on with what it had in memory.
func TestStrictTemplateMadeAgain(t *testing.T) {
	t.Parallel()
	o := startTemplateOrder(t, "chat.vip.a")
	o.tag("create", "chat.>", "--template", "--step", "10")
	o.tag("create", "chat.vip.*", "--template", "--step", "1000", "--order", "strict")
	o.strict(3)
	o.tag("rm", "chat.vip.*", "--yes")
	o.trend(30)
	again := []string{"tag", "create", "--server", o.url, "chat.vip.*", "--template", "--step", "1000", "--order", "strict"}
	if refused := run(t, again...); refused.code == 0 || !strings.Contains(refused.stderr, "chat.vip.a") {
		t.Errorf("exit code %d: %s", refused.code, refused.stderr)
	}
	o.tag("rm", "chat.>", "--yes")
	must(t, again...) // nobody answers for its tags now
	o.strict(50)
}

// TestStrictTemplateOfRemovedOne removes an ordinary template, so that its tags fall to a less specific strict one.
func TestStrictTemplateOfRemovedOne(t *testing.T) {
	t.Parallel()
	o := startTemplateOrder(t, "chat.vip.a")
	o.tag("create", "chat.>", "--template", "--step", "1000", "--order", "strict")
	o.strict(3) // the owner has some in memory
	o.tag("create", "chat.vip.*", "--template", "--step", "10")
	o.trend(100)
	o.tag("rm", "chat.vip.*", "--yes")
	o.strict(50)
}

// TestOrderOfATagByName: a tag that is created by name as an ordinary one is one, whatever its template says;
// and when it is removed and comes back by the template, it is strict.
func TestOrderOfATagByName(t *testing.T) {
	t.Parallel()
	o := startTemplateOrder(t, "chat.hot")
	o.tag("create", "chat.*", "--template", "--order", "strict")
	o.tag("create", "chat.hot", "--order", "trend", "--step", "10")
	if ls := must(t, "tag", "ls", "--server", o.url, "chat.hot").stdout; !strings.Contains(ls, "trend") || strings.Contains(strings.SplitAfter(ls, "chat.hot")[1], "strict\n") {
		t.Errorf("created with --order trend, and is:\n%s", ls)
	}
	o.trend(50)
	o.tag("rm", "chat.hot", "--yes")
	o.strict(50)
}

// TestOrderOfATagWithoutOne: a tag that is created by name and given no order has that of its template, and
// keeps it.
func TestOrderOfATagWithoutOne(t *testing.T) {
	t.Parallel()
	o := startTemplateOrder(t, "chat.hot")
	o.tag("create", "chat.*", "--template", "--order", "strict")
	if out := must(t, "tag", "create", "--server", o.url, "chat.hot", "--step", "10").stdout; !strings.HasPrefix(out, "created strict tag chat.hot") {
		t.Errorf("under a strict template, tag create says %q", out)
	}
	o.strict(50)
	o.tag("rm", "chat.*", "--yes")
	o.strict(50)
	if out := must(t, "tag", "create", "--server", o.url, "chat.cold").stdout; !strings.HasPrefix(out, "created tag chat.cold") {
		t.Errorf("under none, tag create says %q", out)
	}
}
