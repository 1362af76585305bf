package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/natstest"
)

// nodeClient is docs/clients/node, installed.
type nodeClient struct {
	t   *testing.T
	dir string
}

// installNode copies the client, with the packages that make deps installed.
func installNode(t *testing.T) nodeClient {
	t.Helper()
	modules := deps.Node.Require(t)
	dir := t.TempDir()
	for _, name := range []string{"package.json", "idworker.js", "get.js"} {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(modules), name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return nodeClient{t, dir}
}

func (c nodeClient) command(name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(c.t.Context(), natstest.Patience)
	c.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	cmd.Env = neutralEnv()
	return cmd
}

// get sends a request to a subject, and returns stdout and stderr.
func (c nodeClient) get(url string, args ...string) (lines []string, complaint string) {
	c.t.Helper()
	cmd := c.command("node", append([]string{"get.js"}, args...)...)
	cmd.Env = append(cmd.Env, "NATS_URL="+url)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if (err == nil) != (stderr.Len() == 0) || (err == nil) != (len(out) > 0) {
		c.t.Errorf("get.js %v: %v, printed %.100q, complained %.500q", args, err, out, stderr.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), stderr.String()
}

// busyMachine is the client's complaint if no answer came within its timeout.
var busyMachine = regexp.MustCompile(`(?i)timeout|\((429|503)\)`)

// timedOut is its complaint if its last request had no answer.
var timedOut = regexp.MustCompile(`(?i)timeout`)

// ids gets n IDs and fails the test unless they ascend.
func (c nodeClient) ids(url, subject string, n int) (ids []int64) {
	c.t.Helper()
	var lines []string
	natstest.Eventually(c.t, fmt.Sprintf("%d IDs of %s", n, subject), func() bool {
		var complaint string
		if lines, complaint = c.get(url, subject, strconv.Itoa(n)); complaint != "" && !busyMachine.MatchString(complaint) {
			c.t.Fatalf("%d IDs of %s: %s", n, subject, complaint)
		}
		return complaint == ""
	})
	for _, line := range lines {
		id, err := strconv.ParseInt(line, 10, 64)
		if err != nil || len(ids) > 0 && id <= ids[len(ids)-1] {
			c.t.Fatalf("%s: line %q after %v: %v", subject, line, ids, err)
		}
		ids = append(ids, id)
	}
	if len(ids) != n {
		c.t.Fatalf("%d IDs of %s, want %d", len(ids), subject, n)
	}
	return ids
}

// complains returns the client's complaint, other than a timeout.
func (c nodeClient) complains(url, subject, n string) (complaint string) {
	c.t.Helper()
	natstest.Eventually(c.t, "an answer to "+subject, func() bool {
		_, complaint = c.get(url, subject, n)
		return !busyMachine.MatchString(complaint)
	})
	return complaint
}

// TestNodeClient: a client written from docs/protocol.md alone gets IDs of real
// workers. Replies that break the contract yield no IDs, and requests that
// failed for the moment are sent again.
func TestNodeClient(t *testing.T) {
	t.Parallel()
	node := installNode(t)
	t.Run("real workers", func(t *testing.T) { nodeGetsIDs(t, node) })
	t.Run("bad replies", func(t *testing.T) { nodeRefusesBadReplies(t, node) })
}

func nodeGetsIDs(t *testing.T, node nodeClient) {
	server := startServer(t, t.TempDir())
	startWorker(t, server.url)
	const beyond = 1 << 60 // where a double holds every 256th integer
	createTag(t, server.url, "order", "--first", strconv.FormatInt(beyond, 10))

	seen := make(map[int64]bool)
	for _, n := range []int{1, 1000, 10_000} {
		for _, subject := range []string{"ids.segment.order", "ids.snowflake"} {
			for _, id := range node.ids(server.url, subject, n) {
				if seen[id] {
					t.Fatalf("%s: ID %d twice", subject, id)
				}
				seen[id] = true
				if subject == "ids.segment.order" && (id < beyond || id > beyond+100_000_000) {
					t.Fatalf("ID %d is not of the tag", id)
				}
			}
		}
	}
	for _, c := range []struct{ subject, n, want string }{
		{"ids.segment.unknown", "1", "no such tag (404)"},
		{"ids.segment.order", "0", "(400)"},
		{"ids.segment.order", "10001", "decimal from 1 to 10000 (400)"},
		{"ids.snowflake", "1.5", "(400)"},
		{"nobody.snowflake", "1", "no responders"},
	} {
		if complaint := node.complains(server.url, c.subject, c.n); !strings.Contains(complaint, c.want) {
			t.Errorf("%s IDs of %s: %q, want %q", c.n, c.subject, complaint, c.want)
		}
	}
}

func nodeRefusesBadReplies(t *testing.T, node nodeClient) {
	server := natstest.Start(t)
	conn := server.Connect(t)
	answer := func(subject string, replies ...*nats.Msg) {
		_, err := conn.Subscribe(subject, func(req *nats.Msg) {
			_ = req.RespondMsg(replies[0]) // the client would complain
			if len(replies) > 1 {
				replies = replies[1:]
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		flush(t, conn)
	}
	for i, data := range []string{"", "1-2", "1-4", "1-3\n", "1-2\n2", "3-1\n5", "01-3", "0-2", "9223372036854775807-9223372036854775809"} {
		subject := fmt.Sprint("bad.", i)
		answer(subject, &nats.Msg{Data: []byte(data)})
		if complaint := node.complains(server.URL(), subject, "3"); !strings.Contains(complaint, "not 3 IDs") {
			t.Errorf("reply %q: %q", data, complaint)
		}
	}
	failure := func(code string) *nats.Msg {
		return &nats.Msg{Header: nats.Header{"Nats-Service-Error-Code": {code}, "Nats-Service-Error": {"told by the worker"}}}
	}
	last := &nats.Msg{Data: []byte(strconv.Itoa(math.MaxInt64-1) + "-" + strconv.Itoa(math.MaxInt64))}
	// Each run has a subject of its own, so that a repeated request is the
	// client's.
	runs, want := 0, fmt.Sprint([]int64{math.MaxInt64 - 1, math.MaxInt64})
	natstest.Eventually(t, "the client has an answer in time", func() bool {
		runs++
		subject := fmt.Sprint("again.", runs)
		answer(subject, failure("503"), failure("429"), last)
		lines, complaint := node.get(server.URL(), subject, "2")
		if timedOut.MatchString(complaint) {
			return false
		}
		if got := fmt.Sprint(lines); complaint != "" || got != want {
			t.Errorf("after 503 and 429: IDs %s and %q, want the last two, %s", got, complaint, want)
		}
		return true
	})
	answer("final", failure("507"))
	if complaint := node.complains(server.URL(), "final", "2"); !strings.Contains(complaint, "told by the worker (507)") {
		t.Errorf("after 507: %q", complaint)
	}
}
