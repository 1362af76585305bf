package loadmsg_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker/loadmsg"
)

// TestNames spells out the names: other versions and the rights in nats.conf
// depend on them.
func TestNames(t *testing.T) {
	p := messages.DefaultPrefix
	for _, c := range []struct{ got, want string }{
		{loadmsg.StreamName(p), "IDS_LOAD"},
		{loadmsg.Subject(p, "W1", "order.item"), "ids.load.W1.order.item"},
		{loadmsg.ReserveSubject(p), "ids.reserve"},
		{loadmsg.GrantSubject(p, "W1"), "ids.grant.W1"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// FuzzPrefixInNames: an accepted prefix adds a single token to every name.
func FuzzPrefixInNames(f *testing.F) {
	for _, p := range []string{"ids", "", "a.b", "*", ">", "a b", "\xff", strings.Repeat("x", 33)} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := messages.Prefix(s)
		if p.Check() != nil {
			return
		}
		wantLiteral(t, loadmsg.Subject(p, "W1", "order"), 4)
		wantLiteral(t, loadmsg.GrantSubject(p, "W1"), 3)
		wantLiteral(t, loadmsg.ReserveSubject(p), 2)
		wantLiteral(t, loadmsg.StreamName(p), 1)
	})
}

// wantLiteral fails the test unless the subject has that many tokens, none of
// them empty or special to a NATS server.
func wantLiteral(t testing.TB, subject string, tokens int) {
	t.Helper()
	got := strings.Split(subject, ".")
	if len(got) != tokens {
		t.Fatalf("subject %q has %d tokens, want %d", subject, len(got), tokens)
	}
	for _, token := range got {
		if !tokenRule.MatchString(token) {
			t.Fatalf("subject %q has the token %q", subject, token)
		}
	}
}

// tokenRule is the rule in a different notation than the code's.
var tokenRule = regexp.MustCompile(`\A[A-Za-z0-9_-]+\z`)

// tags draws well-formed tags.
func tags() *rapid.Generator[string] {
	return rapid.StringMatching(`[A-Za-z0-9_-]{1,24}(\.[A-Za-z0-9_-]{1,24}){0,4}`)
}

// instances draws well-formed names of processes.
func instances() *rapid.Generator[string] { return rapid.StringMatching(`[A-Za-z0-9_-]{1,32}`) }

// installations draws IDs of installations, or "", as older versions send it.
func installations() *rapid.Generator[string] { return rapid.StringMatching(`[A-Za-z0-9_-]{0,32}`) }

// tokens is the number of tokens of a tag.
func tokens(tag string) int { return 1 + strings.Count(tag, ".") }
