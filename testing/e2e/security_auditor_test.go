package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/natstest"
)

// repliesStay: the server sends the answer to any request to its reply subject,
// without a check of rights. Users of other accounts send all requests that
// they may, for answers on subjects of every stream. No stream of IDS stores
// one. And the auditor, whose account has no streams, changes none at all.
func (s *site) repliesStay(t *testing.T) {
	ids := []string{loadEvents, configBucket, workersBucket, clockBucket, registerBucket}
	all := append(slices.Clone(ids), sourceStream, targetStream, enrichBucket)
	for _, c := range []struct {
		user      string
		unchanged []string
	}{{"orders-auditor", all}, {"monitor", ids}, {"caller", all}, {"order", all}, {"enricher", ids}} {
		before := s.lastSequences(c.unchanged)
		asked := s.askForReplies(c.user)
		if after := s.lastSequences(c.unchanged); !maps.Equal(after, before) {
			t.Errorf("the streams ended at %v, and after %d requests of %s at %v", before, asked, c.user, after)
		}
	}
}

// askForReplies has a user publish all that it may, with subjects of streams
// for the replies, and returns when the server has answered.
func (p *production) askForReplies(name string) (asked int) {
	p.t.Helper()
	conn := p.connect(name)
	defer conn.Close()
	replies := []string{
		"orders.raw.x", "orders.ready.x", "orders.dead", "$KV.ids_enrich.x", "ids.load.X.order",
		"$KV.ids_config.x", "$KV.ids_workers.1", "$KV.ids_clock.1", "$KV.ids_register.order",
	}
	subjects := strings.NewReplacer("*", "x", ">", "order")
	for _, right := range roles.UserNamed(name).Rights.Publish {
		for _, reply := range replies {
			for _, body := range []string{"", `{"seq":1}`, `{"subject":"orders.raw.x"}`} {
				if err := conn.PublishRequest(subjects.Replace(right), reply, []byte(body)); err != nil {
					p.t.Fatal(err)
				}
				asked++
			}
		}
	}
	for _, right := range roles.UserNamed(name).Rights.Publish { // these may be answered
		if strings.HasPrefix(right, "$") && !strings.HasPrefix(right, "$KV.") {
			_, _ = conn.Request(subjects.Replace(right), []byte(`{"seq":1}`), time.Second)
		}
	}
	flush(p.t, conn)
	return asked
}

// lastSequences are the last sequences of streams.
func (p *production) lastSequences(streams []string) map[string]uint64 {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), natstest.Patience)
	defer cancel()
	last := map[string]uint64{}
	for _, name := range streams {
		owner := "admin"
		if name == sourceStream || name == targetStream || name == enrichBucket {
			owner = "orders-admin"
		}
		conn := p.connect(owner)
		js := natstest.JetStream(p.t, conn)
		s, err := js.Stream(ctx, name)
		if err != nil {
			p.t.Fatal(err)
		}
		last[name] = s.CachedInfo().State.LastSeq
		conn.Close()
	}
	return last
}
