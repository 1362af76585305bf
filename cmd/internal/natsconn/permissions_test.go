package natsconn

import (
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/internal/rights"
)

func TestPermits(t *testing.T) {
	list := func(allow, deny []string) *server.SubjectPermission {
		return &server.SubjectPermission{Allow: allow, Deny: deny}
	}
	for _, c := range []struct {
		why     string
		list    *server.SubjectPermission
		subject string
		want    bool
	}{
		{"no list allows everything", nil, "a.b", true},
		{"an empty list allows everything", list(nil, nil), "a.b", true},
		{"the subject itself", list([]string{"a.b"}, nil), "a.b", true},
		{"another subject", list([]string{"a.c"}, nil), "a.b", false},
		{"a wildcard covers a subject", list([]string{"a.*"}, nil), "a.b", true},
		{"a wildcard covers one token only", list([]string{"a.*"}, nil), "a.b.c", false},
		{"all below", list([]string{"a.>"}, nil), "a.b.c", true},
		{"all below is not the subject itself", list([]string{"a.>"}, nil), "a", false},
		{"a wildcard covers the same wildcard", list([]string{"a.>"}, nil), "a.>", true},
		{"a wildcard covers a narrower one", list([]string{"a.>"}, nil), "a.*", true},
		{"a wildcard does not cover a wider one", list([]string{"a.*"}, nil), "a.>", false},
		{"one of several", list([]string{"x", "a.*"}, nil), "a.b", true},
		{"two that cover it together do not count", list([]string{"a.b", "a.c"}, nil), "a.*", false},
		{"a queue group covers that group", list([]string{"a.> ids"}, nil), "a.> ids", true},
		{"a queue group does not cover another", list([]string{"a.> ids"}, nil), "a.> spy", false},
		{"a queue group does not cover none", list([]string{"a.> ids"}, nil), "a.>", false},
		{"no queue group covers every group", list([]string{"a.>"}, nil), "a.> ids", true},
		{"case matters", list([]string{"a.b"}, nil), "A.b", false},
		{"everything", list([]string{">"}, nil), "$JS.API.INFO", true},
		{"allowed but for what is denied", list([]string{">"}, []string{"a.>"}), "b", true},
		{"allowed, and denied", list([]string{">"}, []string{"a.>"}), "a.b.c", false},
		{"neither allowed nor denied", list([]string{"b"}, []string{"a"}), "c", false},
		{"denied", list(nil, []string{"a.b"}), "a.b", false},
		{"something else is denied", list(nil, []string{"a.c"}), "a.b", true},
		{"part of it is denied", list([]string{"a.>"}, []string{"a.b"}), "a.*", false},
		{"denied for a queue group", list([]string{"a.>"}, []string{"a.b ids"}), "a.b ids", false},
	} {
		if got := permits(c.list, c.subject); got != c.want {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	need := rights.Rights{Publish: []string{"a", "b"}, Subscribe: []string{"c q", "d"}}
	if err := (Permissions{}).Check(need); err != nil {
		t.Errorf("a user who may do everything: %v", err)
	}
	some := Permissions{&server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{"a"}}, Subscribe: &server.SubjectPermission{Allow: []string{"c"}},
	}}
	var missing *RightsError
	if err := some.Check(need); !errors.As(err, &missing) || err.Error() != "the user may not publish b, subscribe d" {
		t.Errorf("%v", err)
	}
}
