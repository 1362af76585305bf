package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
)

// guide is a document whose commands are run in order.
type guide struct {
	t     *testing.T
	lines []string
	env   []string

	url, api string   // where the process serves that was started last
	serve    *process // that process
	last     asked    // of the latest curl
	printed  string   // the page's output of the latest command
	replace  [2]string
	client   *http.Client
}

func newGuide(t *testing.T, file string) *guide {
	g := &guide{t: t, client: newHTTPClient(t)}
	for line := range strings.Lines(document(t, file)) {
		g.lines = append(g.lines, strings.TrimSpace(line))
	}
	return g
}

// follow runs the next commands of the page, which must begin with the given
// text, and returns the last output.
func (g *guide) follow(commands ...string) (output string) {
	g.t.Helper()
	for _, want := range commands {
		command := g.next()
		if !strings.HasPrefix(command, want) {
			g.t.Fatalf("the page says %q next, and the test knows of %q", command, want)
		}
		output = g.run(command)
	}
	return output
}

// next returns the next command, "" if there is none.
func (g *guide) next() string {
	for i, line := range g.lines {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			g.lines = g.lines[i+1:]
			g.printed = g.lines[0]
			return command
		}
	}
	g.lines = nil
	return ""
}

// done fails the test if there are commands that were not run.
func (g *guide) done() {
	g.t.Helper()
	if command := g.next(); command != "" {
		g.t.Errorf("the page also says %q", command)
	}
}

func (g *guide) run(command string) string {
	g.t.Helper()
	args := strings.Fields(strings.ReplaceAll(command, "'", ""))
	switch {
	case args[0] == "export": // the test has a database of its own
		return ""
	case args[0] == "curl":
		return g.curl(args[len(args)-1])
	case args[1] == "serve":
		g.start(args[1:])
		return ""
	}
	return settings{env: g.env}.mustRun(g.t, args[1:]...).stdout
}

func (g *guide) curl(target string) string {
	g.t.Helper()
	target = strings.Replace(target, "127.0.0.1:8080", g.api, 1)
	if g.replace[0] != "" {
		target = strings.Replace(target, g.replace[0], g.replace[1], 1)
	}
	var err error
	if g.last, err = askHTTP(g.t, g.client, http.MethodGet, "http://"+target); err != nil {
		g.t.Fatal(err)
	}
	return g.last.body
}

// start starts a server as on the page, at free addresses, and with a folder of
// its own.
func (g *guide) start(args []string) {
	g.t.Helper()
	g.api = freeport.Address(g.t)
	for i := range args {
		args[i] = strings.Replace(args[i], "127.0.0.1:8080", g.api, 1)
	}
	host := settings{env: g.env}.startServer(g.t, g.t.TempDir(), args[1:]...)
	g.serve, g.url = host.process, host.url
	g.env = append(g.env, "NATS_URL="+g.url)
}
