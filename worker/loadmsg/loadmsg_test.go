package loadmsg_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/loadmsg"
)

const maxLoad = 1_000_000

var (
	goodEvent = loadmsg.Event{Instance: "W1", Tag: "order", Step: 1000, Want: 3, Seq: 7, Runway: 90_000}
	goodGrant = loadmsg.Grant{Instance: "W1", Tag: "order", Seq: 7, First: 1, End: 1001, Step: 1000, Order: store.Trend}
)

// TestSlack: parked requests first, then the shortest runway.
func TestSlack(t *testing.T) {
	var last time.Duration = -1
	for _, e := range []loadmsg.Event{
		{Want: 1, Runway: 3_600_000}, {Runway: 1}, {Runway: 60_000}, {Runway: 3_600_000}, {Runway: 365 * 24 * 3_600_000},
	} {
		if e.Slack() <= last {
			t.Errorf("%+v may wait for %v, the one before for %v", e, e.Slack(), last)
		}
		last = e.Slack()
	}
}

func TestDecodeLoadEvent(t *testing.T) {
	if got, err := loadmsg.DecodeEvent(goodEvent.Encode(), maxLoad); got != goodEvent || err != nil {
		t.Errorf("%+v, %v; want %+v", got, err, goodEvent)
	}
	for why, change := range map[string]func(*loadmsg.Event){
		"no instance":            func(e *loadmsg.Event) { e.Instance = "" },
		"instance of two tokens": func(e *loadmsg.Event) { e.Instance = "a.b" },
		"instance a wildcard":    func(e *loadmsg.Event) { e.Instance = ">" },
		"instance too long":      func(e *loadmsg.Event) { e.Instance = strings.Repeat("x", 33) },
		"no tag":                 func(e *loadmsg.Event) { e.Tag = "" },
		"tag a wildcard":         func(e *loadmsg.Event) { e.Tag = "order.*" },
		"neither step nor want":  func(e *loadmsg.Event) { e.Step, e.Want = 0, 0 },
		"step negative":          func(e *loadmsg.Event) { e.Step = -1 },
		"step over the limit":    func(e *loadmsg.Event) { e.Step = maxLoad + 1 },
		"installation of two":    func(e *loadmsg.Event) { e.Installation = "a.b" },
		"installation too long":  func(e *loadmsg.Event) { e.Installation = strings.Repeat("x", 33) },
		"want negative":          func(e *loadmsg.Event) { e.Want = -1 },
		"want over the limit":    func(e *loadmsg.Event) { e.Want = maxLoad + 1 },
		"runway negative":        func(e *loadmsg.Event) { e.Runway = -1 },
		"runway without end":     func(e *loadmsg.Event) { e.Runway = math.MaxInt64 },
		"want as large as can":   func(e *loadmsg.Event) { e.Want = math.MaxInt64 },
		"floor negative":         func(e *loadmsg.Event) { e.Floor = -1 },
		"next negative":          func(e *loadmsg.Event) { e.Floor, e.Next = 1, -1 },
	} {
		e := goodEvent
		change(&e)
		if _, err := loadmsg.DecodeEvent(e.Encode(), maxLoad); !errors.Is(err, loadmsg.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", why, err)
		}
	}
}

func TestDecodeGrant(t *testing.T) {
	for _, g := range []loadmsg.Grant{
		goodGrant,
		{Instance: "W1", Tag: "order", First: math.MaxInt64 - 1, End: math.MaxInt64, Step: 1, Order: store.Strict},
		{Instance: "W1", Tag: "order", Seq: math.MaxUint64, Refused: messages.CodeNoTag},
		{Instance: "W1", Tag: "order", Seq: 7, Refused: messages.CodeExhausted},
		{Instance: "W1", Tag: "order", Seq: 7, NotNow: loadmsg.NotNowStore, Reason: "no route to host"},
		{Instance: "W1", Tag: "order.1", Seq: 7, Refused: messages.CodeBusy, Reason: "full", FullTemplate: "order.*"},
	} {
		if got, err := loadmsg.DecodeGrant(g.Encode()); got != g || err != nil {
			t.Errorf("%+v, %v; want %+v", got, err, g)
		}
	}
	for why, change := range map[string]func(*loadmsg.Grant){
		"no instance":               func(g *loadmsg.Grant) { g.Instance = "" },
		"instance of two tokens":    func(g *loadmsg.Grant) { g.Instance = "a.b" },
		"tag with an empty token":   func(g *loadmsg.Grant) { g.Tag = "a..b" },
		"installation a wildcard":   func(g *loadmsg.Grant) { g.Installation = ">" },
		"no range":                  func(g *loadmsg.Grant) { g.First, g.End = 0, 0 },
		"range from 0":              func(g *loadmsg.Grant) { g.First = 0 },
		"negative range":            func(g *loadmsg.Grant) { g.First, g.End = -5, -1 },
		"range that wrapped around": func(g *loadmsg.Grant) { g.First, g.End = math.MaxInt64, math.MinInt64 },
		"empty range":               func(g *loadmsg.Grant) { g.First, g.End = 5, 5 },
		"range without a step":      func(g *loadmsg.Grant) { g.Step = 0 },
		"range without an order":    func(g *loadmsg.Grant) { g.Order = "" },
		"range and refusal":         func(g *loadmsg.Grant) { g.Refused = messages.CodeNoTag },
		"not now for no reason":     func(g *loadmsg.Grant) { g.First, g.End, g.NotNow = 0, 0, "never" },
		"range and not now":         func(g *loadmsg.Grant) { g.NotNow = loadmsg.NotNowTag },
		"refusal and not now": func(g *loadmsg.Grant) {
			g.First, g.End, g.Refused, g.NotNow = 0, 0, messages.CodeNoTag, loadmsg.NotNowTag
		},
		"full template with a range": func(g *loadmsg.Grant) { g.FullTemplate = "order.*" },
		"full template for another refusal": func(g *loadmsg.Grant) {
			g.First, g.End, g.Refused, g.FullTemplate = 0, 0, messages.CodeNoTag, "order.*"
		},
		"full template that is none": func(g *loadmsg.Grant) {
			g.First, g.End, g.Refused, g.FullTemplate = 0, 0, messages.CodeBusy, "order.*\r\nIds-Max-Count: 1"
		},
		"pause with a range": func(g *loadmsg.Grant) { g.Pause = 50 },
		"pause too long":     func(g *loadmsg.Grant) { g.First, g.End, g.Refused, g.Pause = 0, 0, messages.CodeBusy, 1001 },
		"refusal that is none": func(g *loadmsg.Grant) {
			g.First, g.End, g.Refused = 0, 0, messages.CodeMalformed
		},
	} {
		g := goodGrant
		change(&g)
		if _, err := loadmsg.DecodeGrant(g.Encode()); !errors.Is(err, loadmsg.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", why, err)
		}
	}
}

// TestLoadMessagesThatAreNone: both decoders refuse anything but a JSON object
// with numbers in range.
func TestLoadMessagesThatAreNone(t *testing.T) {
	for _, data := range []string{
		"", "null", "1", "[]", `"order"`, "{", `{"step":1e99}`, `{"step":1.5}`, `{"seq":-1}`, "\x00\xff",
		`{"instance":"W1","tag":"order","step":9223372036854775808,"want":0,"seq":1}`,
		`{"instance":"W1","tag":"order\u0000","step":1,"first":1,"end":2}`,
		`{"instance":"W1","tag":"order","step":1,"first":1,"end":2} trailing`,
		strings.Repeat("[", 100_000),
	} {
		if _, err := loadmsg.DecodeEvent([]byte(data), maxLoad); !errors.Is(err, loadmsg.ErrMalformed) {
			t.Errorf("event %.50q: %v, want ErrMalformed", data, err)
		}
		if _, err := loadmsg.DecodeGrant([]byte(data)); !errors.Is(err, loadmsg.ErrMalformed) {
			t.Errorf("grant %.50q: %v, want ErrMalformed", data, err)
		}
	}
}

func TestAnyLoadEventThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := loadmsg.Event{
			Instance: instances().Draw(t, "instance"),
			Tag:      tags().Draw(t, "tag"),
			Step:     rapid.Int64Range(1, maxLoad).Draw(t, "step"),
			Want:     rapid.Int64Range(0, maxLoad).Draw(t, "want"),
			Seq:      rapid.Uint64().Draw(t, "seq"),
			Runway:   rapid.Int64Range(0, 1<<38).Draw(t, "runway"),

			Installation: installations().Draw(t, "installation"),
			Floor:        rapid.Int64Range(0, math.MaxInt64).Draw(t, "floor"),
			Sequence:     rapid.Uint64().Draw(t, "sequence"),
			Next:         rapid.Int64Range(0, math.MaxInt64).Draw(t, "next"),
		}
		if got, err := loadmsg.DecodeEvent(e.Encode(), maxLoad); got != e || err != nil {
			t.Fatalf("%+v became %+v, %v", e, got, err)
		}
		if _, err := loadmsg.DecodeEvent(e.Encode(), max(e.Step, e.Want)-1); !errors.Is(err, loadmsg.ErrMalformed) {
			t.Fatalf("%+v with a limit below its size: %v", e, err)
		}
	})
}

func TestAnyGrantThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := loadmsg.Grant{
			Instance: instances().Draw(t, "instance"),
			Tag:      tags().Draw(t, "tag"),
			Seq:      rapid.Uint64().Draw(t, "seq"),
			Refused:  rapid.SampledFrom([]messages.Code{0, messages.CodeNoTag, messages.CodeExhausted}).Draw(t, "refused"),

			Installation: installations().Draw(t, "installation"),
		}
		if g.Refused == 0 {
			g.First = rapid.Int64Range(1, math.MaxInt64-1).Draw(t, "first")
			g.End = rapid.Int64Range(g.First+1, math.MaxInt64).Draw(t, "end")
			g.Step = rapid.Int64Range(1, math.MaxInt64).Draw(t, "step")
			g.Order = rapid.SampledFrom([]store.Order{store.Trend, store.Strict}).Draw(t, "order")
		}
		if got, err := loadmsg.DecodeGrant(g.Encode()); got != g || err != nil {
			t.Fatalf("%+v became %+v, %v", g, got, err)
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add(goodEvent.Encode(), int64(maxLoad))
	f.Add([]byte(`{"instance":"W1.>","tag":"order","step":1}`), int64(maxLoad))
	f.Add([]byte(`{"INSTANCE":"W1","Tag":"order","step":1,"step":2,"more":{}}`), int64(maxLoad))
	f.Add([]byte(`{"instance":"W1","tag":"order.*","step":1}`), int64(maxLoad))
	f.Add([]byte(`{"instance":"W1","tag":"order","step":9223372036854775807}`), int64(math.MaxInt64))
	f.Add([]byte(`null`), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, limit int64) {
		e, err := loadmsg.DecodeEvent(data, limit)
		if err != nil {
			if !errors.Is(err, loadmsg.ErrMalformed) {
				t.Fatalf("%v is not ErrMalformed", err)
			}
			return
		}
		if e.Step < 0 || e.Want < 0 || max(e.Step, e.Want) < 1 || max(e.Step, e.Want) > limit {
			t.Fatalf("%q: %+v, limit %d", data, e, limit)
		}
		wantAddress(t, e.Instance, e.Tag)
		if again, err := loadmsg.DecodeEvent(e.Encode(), limit); again != e || err != nil {
			t.Fatalf("%+v became %+v, %v", e, again, err)
		}
	})
}

func FuzzDecodeGrant(f *testing.F) {
	f.Add(goodGrant.Encode())
	f.Add([]byte(`{"instance":"W1","tag":"order","seq":7,"refused":404}`))
	f.Add([]byte(`{"instance":"W1","tag":"order","seq":7,"refused":503}`))
	f.Add([]byte(`{"instance":"*","tag":"order","seq":7,"first":1,"end":2}`))
	f.Add([]byte(`{"instance":"W1","tag":"order","seq":7,"first":9223372036854775807,"end":-9223372036854775808}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := loadmsg.DecodeGrant(data)
		if err != nil {
			if !errors.Is(err, loadmsg.ErrMalformed) {
				t.Fatalf("%v is not ErrMalformed", err)
			}
			return
		}
		if granted := g.First >= 1 && g.End > g.First; granted == (g.Refused != 0) {
			t.Fatalf("%q: %+v, want either a range or a refusal", data, g)
		}
		wantAddress(t, g.Instance, g.Tag)
		if again, err := loadmsg.DecodeGrant(g.Encode()); again != g || err != nil {
			t.Fatalf("%+v became %+v, %v", g, again, err)
		}
	})
}

// wantAddress fails the test unless an accepted instance is one token of a
// subject, and an accepted tag its own tokens.
func wantAddress(t testing.TB, instance, tag string) {
	t.Helper()
	wantLiteral(t, loadmsg.GrantSubject(messages.DefaultPrefix, instance), 3)
	wantLiteral(t, loadmsg.Subject(messages.DefaultPrefix, instance, tag), 3+tokens(tag))
}
