package monitoring

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// requestsStory is about callers, tags, loaders and workers: an installation with two workers and a loader.
func requestsStory(t *testing.T) {
	s := newSite(t)
	const token = "a-token-of-somebody"
	api := freeport.Address(t)
	tokens := s.file("tokens", token+" >\n")
	loader := s.ready("loader", "serve", "--role", "loader", "--new")
	var workers []*program
	startWorkers := func(more ...string) {
		serve := append([]string{"serve", "--role", "worker"}, more...)
		workers = []*program{
			s.ready("worker", append(serve, "--wait", "1s")...),
			s.ready("worker", append(serve, "--wait", "30s", "--api", api, "--api-tokens", tokens, "--api-connections", "4")...),
		}
	}
	startWorkers()
	for _, create := range [][]string{
		{"order", "--step", "100000"}, {"busy"}, {"exact", "--order", "strict"},
		{"fast", "--first", "1147483648"}, // 10^9 below 2^31
		{"chat.*", "--template", "--max-tags", "2"},
	} {
		s.run(append([]string{"tag", "create"}, create...)...)
	}
	js := natstest.JetStream(t, s.connect())
	asking := func(tag string, requests int, ids int64) func() {
		return func() { s.ask(tag, requests, ids) }
	}
	s.warm("order", workers...)
	s.healthy(75*time.Minute, asking("order", 2, 1))

	chats := 0
	calling, begin, end := &callers{url: "http://" + api + "/v1/segment/exact", token: token}, true, false
	s.all([]fault{{
		alerts: []string{"TemplateFull"},
		what:   "a caller asks for a third tag of a template of two",
		cause:  func() {},
		during: func() { chats++; s.ask(fmt.Sprintf("chat.%d", chats), 1, 1) },
		cure:   func() { s.run("tag", "set", "chat.*", "--max-tags", "100000") },
		pace:   pace,
	}, {
		alerts: []string{"APIFileStale"},
		what:   "a token file was replaced by one that is malformed",
		cause: func() {
			s.file("tokens", "short >\n")
			workers[1].Signal(syscall.SIGHUP)
		},
		cure: func() {
			s.file("tokens", token+" >\n")
			workers[1].Signal(syscall.SIGHUP)
		},
		pace: pace,
	}, {
		alerts: []string{"TagNearItsStep", "MemoryRunsOut"},
		what:   "callers use a tag faster than --max-step is meant for",
		cause:  func() {},
		during: func() {
			if begin {
				s.ask("busy", 8, 10_000)
			}
		},
		cure: func() {
			begin = end
			s.stop(workers...)
			startWorkers("--max-step", "100000000")
		},
		pace: pace,
	}, {
		alerts: []string{"TagRunsOut"},
		what:   "a tag comes near 2^31 at its present rate",
		cause:  func() {},
		during: asking("fast", 2, 1000),
		cure: func() { // the column was made wider
			s.run("tag", "raise", "fast", "--next", "2147483648", "--yes")
			s.ask("fast", 1000, 10_000)
		},
		pace: pace,
	}, {
		alerts: []string{"RegisterWentBack"},
		what:   "the register's bucket was deleted",
		cause: func() {
			if err := js.DeleteKeyValue(t.Context(), "ids_register"); err != nil {
				t.Fatal(err)
			}
		},
		cure: func() { s.run("tag", "raise", "--all", "--yes") },
		pace: pace,
	}, {
		alerts: []string{"NoLoaders", "NoLoaderAnswers", "RequestsFail", "APIFull", "ProcessGone"},
		what:   "the only loader died, and HTTP callers wait for a strict tag",
		cause: func() {
			s.crash(loader)
			calling.start(4)
		},
		during: asking("exact", 2, 1),
		cure: func() {
			s.forget(loader.http)
			loader = s.ready("loader", "serve", "--role", "loader")
			calling.stop()
		},
		pace: 250 * time.Millisecond,
	}, {
		alerts: []string{"NoWorkers"},
		what:   "all workers died",
		cause:  func() { s.crash(workers...) },
		cure: func() {
			for _, w := range workers {
				s.forget(w.http)
			}
			startWorkers()
		},
	}})
}

// callers send requests over HTTP, each again and again on a connection of its own.
type callers struct {
	url, token string

	end     context.CancelFunc
	running sync.WaitGroup
}

func (c *callers) start(n int) {
	ctx, cancel := context.WithCancel(context.Background())
	c.end = cancel
	for range n {
		c.running.Go(func() {
			client := http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, nil)
				if err != nil {
					panic(err)
				}
				request.Header.Set("Authorization", "Bearer "+c.token)
				if response, err := client.Do(request); err == nil {
					_ = response.Body.Close()
				}
			}
		})
	}
}

func (c *callers) stop() {
	c.end()
	c.running.Wait()
}
