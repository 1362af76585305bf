package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
)

// TestStrictTagsForEveryUser: with the users of nats.conf, a strict tag goes up whichever worker is asked and
// whoever asks, also from another account, whose requests are passed on with replies that the server
// maps; and the server refuses nothing.
func TestStrictTagsForEveryUser(t *testing.T) {
	t.Parallel()
	net := startProduction(t, natsConf)
	net.provision()
	loader := net.serve("loader", "--role", "loader")
	first := net.serve("worker", "--role", "worker")
	second := net.serve("worker", "--role", "worker")

	net.must("admin", "tag", "create", "invoice", "--step", "50", "--order", "strict")
	net.must("admin", "tag", "create", "order", "--step", "50")
	net.must("admin", "tag", "set", "order", "--order", "strict")
	if ls := net.must("admin", "tag", "ls").stdout; strings.Count(ls, "strict") != 2 {
		t.Errorf("tag ls: %s", ls)
	}
	highest := int64(0)
	callers := []string{"caller", "enricher", "order", "admin"}
	clients := make(map[string]*messages.Client)
	for _, name := range callers {
		clients[name] = messages.NewClient(net.connect(name), messages.DefaultPrefix)
	}
	ask := func(rounds int) {
		t.Helper()
		for i := range rounds {
			name := callers[i%len(callers)]
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			ranges, err := clients[name].NextN(ctx, "order", int64(1+i%3))
			cancel()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if ranges[0].First <= highest {
				t.Fatalf("%s got %v after %d", name, ranges, highest)
			}
			highest = ranges[len(ranges)-1].Last
		}
	}
	ask(400)
	var forwarded int64
	for _, s := range stats(t, net.connect("admin"), 2) {
		forwarded += s.Strict.Forwarded
	}
	fmt.Printf("strict tags in nats.conf: 400 requests of %d users, %d passed on to the owner\n", len(callers), forwarded)
	if forwarded < 100 {
		t.Errorf("only %d requests were passed on", forwarded)
	}
	if got := net.must("enricher", "get", "invoice").stdout; strings.TrimSpace(got) != "1" {
		t.Errorf("the first ID of a strict tag: %q", got)
	}
	refusedNothing(t, net)
	first.stop(syscall.SIGTERM)
	ask(100)
	net.must("admin", "tag", "set", "order", "--order", "trend")
	if id, err := strconv.ParseInt(strings.TrimSpace(net.must("caller", "get", "order").stdout), 10, 64); err != nil || id <= highest {
		t.Errorf("%d, %v after it is an ordinary tag again", id, err)
	}
	refusedNothing(t, net)
	second.stop(syscall.SIGTERM)
	loader.stop(syscall.SIGTERM)
}
