package messages_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
)

// wantLiteral fails the test unless the subject has that many tokens, none of
// them empty, and none special to a NATS server.
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

// The rules in another notation than in the code.
var (
	tokenRule = regexp.MustCompile(`\A[A-Za-z0-9_-]+\z`)
	tagRule   = regexp.MustCompile(`\A[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\z`)
)

// tags draws well-formed tags.
func tags() *rapid.Generator[string] {
	return rapid.StringMatching(`[A-Za-z0-9_-]{1,24}(\.[A-Za-z0-9_-]{1,24}){0,4}`)
}

// tokens returns the number of tokens of a tag.
func tokens(tag string) int { return 1 + strings.Count(tag, ".") }

// wantTagInSubjects fails the test unless the tag adds its own tokens, and
// nothing else, to every subject that contains it.
func wantTagInSubjects(t testing.TB, tag string) {
	t.Helper()
	wantLiteral(t, messages.DefaultPrefix.Segment(tag), 2+tokens(tag))
}
