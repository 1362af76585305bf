package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/number"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/history"
)

// once issues IDs without a retry, which would be a gap.
type once struct{ client }

func (o once) Next(_ context.Context, tag string) (int64, error) {
	ranges, err := o.ask(tag, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

// TestDocumentNumbers: 50 callers get the numbers of a day from a strict template:
// dense, in order, none twice.
func TestDocumentNumbers(t *testing.T) {
	t.Parallel()
	const callers, each = 50, 200
	f := newFirstUses(t)
	f.template(templates.Template{Pattern: "ticket.*", Order: store.Strict, Dates: templates.Dates{Dated: "yyyyMMdd", Ahead: 86400}})
	core, lines := observer.New(zap.DebugLevel)
	startWorker(t, f.net, worker.Config{Store: newStore(t, f.net, 1), StoreName: "jetstream", Log: zap.New(core)})
	tickets, err := number.NewFormat("ticket", "TCK-{yyyyMMdd}-{seq:6}", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	at, began := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), time.Now()
	calls := make([]history.Call, callers*each)
	var all sync.WaitGroup
	for caller := range callers {
		issuer := once{newClient(t, f.net)}
		all.Go(func() {
			for i := range each {
				sent := time.Since(began)
				text, err := tickets.Next(t.Context(), issuer, at)
				received := time.Since(began)
				got, wrong := tickets.Parse(text)
				if err != nil || wrong != nil {
					t.Errorf("%q: %v, %v", text, err, wrong)
					return
				}
				calls[caller*each+i] = history.Call{
					Kind: history.Strict, Tag: got.Tag(), Sent: sent, Received: received, Count: 1, Ranges: []messages.Range{{First: got.Seq, Last: got.Seq}},
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if err := order.Check(calls); err != nil {
		t.Error(err)
	}
	// With no number twice, they are dense if the highest is their number. A load
	// that a slow machine asked for again leaves a gap, of what the worker discards.
	highest := int64(callers * each)
	for _, line := range lines.FilterMessage("segment discarded").All() {
		var first, end int64
		if _, err := fmt.Sscanf(line.ContextMap()["segment"].(string), "[%d, %d)", &first, &end); err != nil {
			t.Fatal(err)
		}
		highest += end - first
	}
	for _, c := range calls {
		if c.Tag != "ticket.20261126" || c.Ranges[0].First > highest {
			t.Fatalf("%v, want at most %d", &c, highest)
		}
	}
}
