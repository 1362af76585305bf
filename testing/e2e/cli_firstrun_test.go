package e2e

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestFirstRun is a newcomer's first minute: make run, more IDs in a second
// terminal, Ctrl-C, and all of that again.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	recipe, err := exec.Command("make", "-C", "../..", "-n", "run").CombinedOutput()
	if err != nil {
		t.Logf("no make to ask what make run runs: %v", err)
	} else if !strings.Contains(string(recipe), "env -u NATS_URL -u NATS_USER -u NATS_PASSWORD -u IDWORKER_INBOX_PREFIX -u NATS_CONTEXT -u IDWORKER_SERVER -u IDWORKER_CONTEXT -u IDWORKER_STORE -u IDWORKER_STORE_FILE bin/idworker serve --demo\n") {
		t.Errorf("make run does not run what this test does:\n%s", recipe)
	}
	folder := settings{dir: t.TempDir()} // empty, with the default data folder
	address := freeport.Address(t)
	api, page := freeport.Address(t), freeport.Address(t)
	folder.env = []string{"IDWORKER_LISTEN=" + address, "IDWORKER_API=" + api, "IDWORKER_HTTP=" + page}
	url := "nats://" + address
	highest := int64(0)

	for round := range 2 {
		p := folder.launch(t, "serve", "--demo")
		natstest.Eventually(t, "the demo is through", func() bool {
			return strings.Contains(p.stdout.String(), "Ctrl-C") || p.hasEnded()
		})
		highest = checkDemo(t, p.stdout.String(), url, highest)

		one := ids(t, settings{}.succeeds(t, "get", "--server", url, "order"))
		if len(one) != 1 || one[0] <= highest {
			t.Errorf("round %d: get order printed %v, want one ID above %d", round, one, highest)
		}
		thousand := ids(t, settings{}.succeeds(t, "get", "--server", url, "order", "1000"))
		if len(thousand) != 1000 || thousand[0] <= one[0] {
			t.Errorf("round %d: get order 1000 printed %d IDs from %d on, want 1000 above %d", round, len(thousand), thousand[0], one[0])
		}
		highest = thousand[len(thousand)-1]

		msg, err := connect(t, url).Request("ids.segment.order", nil, natstest.Patience)
		if err != nil {
			t.Fatalf("plain request: %v", err)
		}
		id, err := strconv.ParseInt(string(msg.Data), 10, 64)
		if err != nil || id <= highest || len(msg.Header) > 0 {
			t.Errorf("round %d: plain request was answered %q %v, want a number above %d", round, msg.Data, msg.Header, highest)
		}
		highest = id
		if out := p.stdout.String(); !strings.Contains(out, "curl "+api+"/v1/segment/order\n") || !strings.Contains(out, "http://"+page+"/\n") {
			t.Errorf("the demo does not show its doors:\n%s", out)
		}
		_, body := fetch(t, api, "/v1/segment/order")
		if _, err := fmt.Sscanf(body, `{"ids":["%d"]}`, &id); err != nil || id <= highest {
			t.Errorf("round %d: curl got %q, want an ID above %d", round, body, highest)
		}
		highest = id
		if _, body := fetch(t, page, "/"); !strings.Contains(body, "<html") {
			t.Errorf("no status page: %.200s", body)
		}
		if round == 0 {
			p.kill() // the second start follows a crash
			continue
		}
		p.stop(syscall.SIGINT)
	}
}

// checkDemo checks the demo's output, and returns the highest ID it got.
func checkDemo(t *testing.T, out, url string, above int64) int64 {
	t.Helper()
	for _, command := range []string{
		" get --server " + url + " order\n",
		" get --server " + url + " --ranges order 1000\n",
		"nats request --server " + url + " --raw ids.segment.order ''\n",
		" tag create --server " + url + " ticket\n",
	} {
		if !strings.Contains(out, command) {
			t.Errorf("the demo does not show the command %q", command)
		}
	}
	var id, first, last int64
	_, rest, _ := strings.Cut(out, "one ID of tag order:")
	_, batch, _ := strings.Cut(rest, "100 more:")
	_, err := fmt.Sscan(rest, &id)
	if err == nil {
		_, err = fmt.Sscanf(strings.TrimSpace(batch), "[%d-%d]", &first, &last)
	}
	if err != nil {
		t.Fatalf("the demo's IDs: %v\n%s", err, out)
	}
	if id <= above || first <= id || last-first != 99 {
		t.Errorf("the demo got %d and %d-%d, want one ID above %d and 100 more", id, first, last, above)
	}
	return last
}

// ids reads the output of get: an ID a line, each above the last.
func ids(t testing.TB, r result) (list []int64) {
	t.Helper()
	for _, line := range r.lines() {
		id, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			t.Fatalf("line %q is no ID", line)
		}
		if len(list) > 0 && id <= list[len(list)-1] {
			t.Fatalf("ID %d after %d", id, list[len(list)-1])
		}
		list = append(list, id)
	}
	return list
}
