package worker

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
)

// TestLookWithoutOwnAnswer: a look without the process's own answer proves
// nothing, whether other processes answer or not.
func TestLookWithoutOwnAnswer(t *testing.T) {
	t.Parallel()
	net := NewAccount(t)
	cfg := Config{Control: net.Connect(t)}.WithDefaults()
	w := &installationWatch{cfg: &cfg, self: ProcessIdentity{Instance: "own", Installation: "ours", Created: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}, timing: timing{quiet: answersQuiet}}
	look := func() error {
		foreign, err := w.look(t.Context())
		if len(foreign) > 0 {
			t.Errorf("found %+v", foreign)
		}
		return err
	}
	answer := func(instance string) {
		conn := net.Connect(t)
		_, err := micro.AddService(conn, micro.Config{
			Name: ProcessServiceName, Version: "0.0.1",
			Metadata: map[string]string{
				"instance": instance, "installation": "ours", "created": "2026-11-22T12:00:00Z", "role": "worker", "prefix": "ids",
			},
		})
		if err == nil {
			err = conn.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if look() == nil {
		t.Error("no process answers, and the look counts")
	}
	answer("other")
	if look() == nil {
		t.Error("only another process answers, and the look counts")
	}
	answer("own")
	natstest.Eventually(t, "a look that counts", func() bool { return look() == nil })
}

// TestSameID: an installation that has the same ID, and another time, is another.
func TestSameID(t *testing.T) {
	made := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	own := ProcessIdentity{Installation: "shop", Created: made}
	for _, c := range []struct {
		other ProcessIdentity
		same  bool
	}{
		{ProcessIdentity{Installation: "shop", Created: made.In(time.FixedZone("", 3600))}, true},
		{ProcessIdentity{Installation: "shop", Created: made.Add(time.Nanosecond)}, false},
		{ProcessIdentity{Installation: "store", Created: made}, false},
	} {
		if got := own.sameInstallation(c.other); got != c.same {
			t.Errorf("%+v: same %v", c.other, got)
		}
	}
}

// TestLookAlone: a look ends with the process's own answer only if no other
// process can answer.
func TestLookAlone(t *testing.T) {
	const usual = time.Second
	of := func(subscribed map[string]int) *installationWatch {
		w := &installationWatch{cfg: &Config{}, timing: timing{quiet: usual}}
		if subscribed != nil {
			w.cfg.Interest = func(subject string) int { return subscribed[subject] }
		}
		return w
	}
	for _, c := range []struct {
		subscribed map[string]int
		want       time.Duration
	}{
		{nil, usual}, // unknown
		{map[string]int{"$SRV.PING.idworker-process": 1}, 0},
		{map[string]int{"$SRV.PING.idworker-process": 2}, usual},
		{map[string]int{"$SRV.STATS.idworker-process": 1}, usual},
	} {
		if got := of(c.subscribed).quiet(); got != c.want {
			t.Errorf("%v: waits %v, want %v", c.subscribed, got, c.want)
		}
	}
}

// TestConflict: processes of two installations conflict if both deal with
// segments, or if both issue snowflake IDs that may be equal. Without evidence
// they conflict.
func TestConflict(t *testing.T) {
	none := snowflake.Layout{}
	layouts := []snowflake.Layout{none, snowflake.Default(), snowflake.Twitter(), snowflake.Discord()}
	var all []ProcessIdentity
	for _, role := range []Role{RoleAll, RoleWorker, RoleLoader, RoleSnowflake} {
		for _, layout := range layouts {
			for datacenter := range min(layout.MaxDatacenter(), 2) + 1 {
				all = append(all, ProcessIdentity{Role: role, Layout: layout, Datacenter: datacenter})
			}
		}
	}
	for _, a := range all {
		for _, b := range all {
			want := noConflict
			switch {
			case a.Role != RoleSnowflake && b.Role != RoleSnowflake:
				want = segmentConflict
			case a.Role == RoleLoader || b.Role == RoleLoader:
			case a.Layout == none || b.Layout == none:
				want = unknownConflict
			case a.Layout != b.Layout:
				want = layoutConflict
			case a.Datacenter == b.Datacenter:
				want = datacenterConflict
			}
			if got := a.conflict(b); got != want || b.conflict(a) != got {
				t.Errorf("%s %s %d, %s %s %d: %d and %d, want %d", a.Role, a.Layout, a.Datacenter, b.Role, b.Layout, b.Datacenter, got, b.conflict(a), want)
			}
		}
	}
}

// TestMalformedDatacenter: what another process reports is used only if it is
// written as this program writes it.
func TestMalformedDatacenter(t *testing.T) {
	twitter := snowflake.Twitter().String()
	if layout, datacenter := decodeDatacenter(twitter, "31"); layout != snowflake.Twitter() || datacenter != 31 {
		t.Errorf("%s, %d", layout, datacenter)
	}
	for _, c := range [][2]string{
		{"", ""}, {twitter, ""}, {"", "1"}, {"twitter", "1"}, {"x" + twitter, "1"}, {snowflake.Default().String(), "1"},
		{twitter, "32"}, {twitter, "-1"}, {twitter, "+1"}, {twitter, "01"}, {twitter, "1 "}, {twitter, "99999999999999999999"},
	} {
		if layout, datacenter := decodeDatacenter(c[0], c[1]); !layout.IsZero() || datacenter != 0 {
			t.Errorf("%q: %s, %d", c, layout, datacenter)
		}
	}
}
