package durability

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/problem"
)

// ServerVersion is the version of a NATS server.
type ServerVersion struct{ Name, Version string }

func (s ServerVersion) String() string { return s.Name + " " + s.Version }

// AskAccount is the request for an account's figures, which each server answers.
// Servers let every account send it, and a user with limited rights needs that
// right.
const AskAccount = "$SYS.REQ.ACCOUNT.PING.STATZ"

// Optional reports whether a request is one of those that [Versions] and
// [CheckServers] try: a user who may not send it can do all else.
func Optional(subject string) bool { return subject == AskServers || subject == AskAccount }

// Versions returns the servers that answer for their version, in the order of
// their names. may reports whether the user may send a request, on [AskServers]
// or [AskAccount]. All is false if there may be other servers: on a cluster, a
// user without these rights sees only the server that it is connected to.
func Versions(ctx context.Context, conn *nats.Conn, may func(subject string) bool) (servers []ServerVersion, all bool, err error) {
	for _, ask := range [][2]string{{AskServers, askConfig}, {AskAccount, `{"include_unused":true}`}} {
		if !may(ask[0]) {
			continue
		}
		err := askAll(ctx, conn, ask[0], ask[1], func(answer []byte) (more bool) {
			var from struct{ Server struct{ Name, Ver string } }
			if json.Unmarshal(answer, &from) == nil && isShown(from.Server.Name) && isShown(from.Server.Ver) {
				servers = append(servers, ServerVersion{from.Server.Name, from.Server.Ver})
			}
			return len(servers) < maxServers
		})
		if err != nil {
			return nil, false, err
		}
		if len(servers) > 0 {
			slices.SortFunc(servers, func(a, b ServerVersion) int { return strings.Compare(a.Name, b.Name) })
			return servers, true, nil
		}
	}
	connected := ServerVersion{conn.ConnectedServerName(), conn.ConnectedServerVersion()}
	return []ServerVersion{connected}, conn.ConnectedClusterName() == "", nil
}

// isShown reports whether a text of an answer can be shown. In a shared account,
// anyone may answer.
func isShown(text string) bool {
	return text != "" && len(text) <= 100 && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// fixed are the first versions, by minor version of 2.x, that keep a stream when
// the server is killed after a write of its index (nats-server issue 6888).
var fixed = map[int]int{10: 23}

// LosesStreams reports whether a server of a version may lose a stream when it
// is killed, although every write was synced. A version that cannot be read does
// not.
func LosesStreams(version string) bool {
	minor, patch, ok := parseVersion(version)
	return ok && patch < fixed[minor]
}

// RevivesOld reports whether a server of a version may bring back older entries
// of a bucket with several copies after a part of its disk was damaged. 2.12.1
// was seen to do so, and 2.15.2 repairs its copy from the others.
func RevivesOld(version string) bool {
	minor, patch, ok := parseVersion(version)
	return ok && (minor < 12 || minor == 12 && patch <= 1)
}

// parseVersion parses a version of nats-server 2.
func parseVersion(version string) (minor, patch int, ok bool) {
	var major int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	return minor, patch, n == 3 && major == 2
}

// LossError names servers of versions that lose streams.
type LossError struct{ Servers []ServerVersion }

func (e *LossError) Error() string {
	return fmt.Sprintf("nats-server before 2.10.23 may lose a stream when it is killed, and the counters with it: %s", List(e.Servers))
}

// Problem is part of [problem.Problem].
func (e *LossError) Problem() (problem.Kind, []any) { return problem.OldServer, nil }

// CheckVersions returns a [*LossError] if a server that the connection's user
// can ask has a version that loses streams.
func CheckVersions(servers []ServerVersion) error {
	bad := slices.DeleteFunc(slices.Clone(servers), func(s ServerVersion) bool { return !LosesStreams(s.Version) })
	if len(bad) == 0 {
		return nil
	}
	return &LossError{bad}
}

// List shows servers, for people.
func List(servers []ServerVersion) string {
	var names []string
	for _, s := range servers {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}
