package worker_test

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// watched returns a logger and what is logged with it from warnings on.
func watched() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.WarnLevel)
	return zap.New(core), logs
}

// count is how many lines begin with a text.
func count(logs *observer.ObservedLogs, text string) int {
	return logs.Filter(func(e observer.LoggedEntry) bool { return strings.HasPrefix(e.Message, text) }).Len()
}

// TestDirectoryMadeAgainEmpty: a worker keeps its tags when the directory has no trace of them.
func TestDirectoryMadeAgainEmpty(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	loader := startWorker(t, net, worker.Config{Store: s, Role: worker.RoleLoader})
	log, logs := watched()
	w := startWorker(t, net, worker.Config{Role: worker.RoleWorker, Log: log})
	createTags(t, net, s, 100, "order", "invoice")
	c := newClient(t, net)
	c.must("order")
	c.must("invoice")
	stop(t, loader) // nobody mirrors the store
	js := newJetStream(t, net)
	if err := js.DeleteKeyValue(t.Context(), worker.TagsBucketName(messages.DefaultPrefix)); err != nil {
		t.Fatal(err)
	}
	if err := worker.Provision(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the worker to hold its tags", func() bool {
		return scrape(t, w)["tags_held/directory"] == 2
	})
	if _, err := c.patiently("order", 1); err != nil {
		t.Errorf("from memory: %v", err)
	}
	if n := count(logs, "tags are missing from the directory"); n != 1 {
		t.Errorf("%d errors: %v", n, logs.All())
	}
}
