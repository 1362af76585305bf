package nemesis

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/idworker/idworker/testing/freeport"
)

// Links are the proxies of a run, by whose they are.
type Links struct {
	server *toxiproxy.ApiServer

	mu  sync.Mutex
	all map[string][]*toxiproxy.Proxy
}

// NewLinks returns no links.
func NewLinks() *Links {
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics have loggers of their own
	metrics := toxiproxy.NewMetricsContainer(prometheus.NewRegistry())
	return &Links{server: toxiproxy.NewServer(metrics, zerolog.Nop()), all: make(map[string][]*toxiproxy.Proxy)}
}

// Add adds a proxy in front of an address to an owner's links, and returns the
// proxy's address.
func (l *Links) Add(whose, upstream string) (address string, err error) {
	p, err := l.listen(whose, upstream)
	for range 3 { // a process without the lock may have taken the port
		if err == nil {
			break
		}
		p, err = l.listen(whose, upstream)
	}
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[whose] = append(l.all[whose], p)
	return p.Listen, nil
}

func (l *Links) listen(whose, upstream string) (*toxiproxy.Proxy, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	p := toxiproxy.NewProxy(l.server, whose+" "+upstream, fmt.Sprintf("127.0.0.1:%d", port), upstream)
	return p, p.Start()
}

func (l *Links) of(whose string) []*toxiproxy.Proxy {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[whose]
}

// Cut closes all of an owner's connections, and refuses new connections until
// Mend.
func (l *Links) Cut(whose string) {
	for _, p := range l.of(whose) {
		p.Stop()
	}
}

// Disturb applies a toxic to an owner's links, until Mend. The owner sends
// upstream. Data that a toxic swallows is lost, and so is its connection when
// it is mended.
func (l *Links) Disturb(whose, toxic, attributes string, streams ...string) error {
	for _, p := range l.of(whose) {
		for _, stream := range streams {
			json := fmt.Sprintf(`{"type": %q, "stream": %q, "attributes": {%s}}`, toxic, stream, attributes)
			if _, err := p.Toxics.AddToxicJson(strings.NewReader(json)); err != nil {
				return fmt.Errorf("toxic %s: %w", json, err)
			}
		}
	}
	return nil
}

// Mend ends Cut and Disturb.
func (l *Links) Mend(whose string) error {
	for _, p := range l.of(whose) {
		p.Toxics.ResetToxics(context.Background())
		if err := p.Start(); err != nil && err != toxiproxy.ErrProxyAlreadyStarted { //nolint:errorlint // it is returned as it is
			return err
		}
	}
	return nil
}

// Close ends all proxies.
func (l *Links) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range l.all {
		for _, p := range list {
			p.Stop()
		}
	}
}
