package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// floodBar is a bound for the p99 of a known tag.
const floodBar = 1.5

// BenchmarkMadeUpNames measures sequential requests for a known tag while
// another caller requests nonexistent names as fast as it can. The baseline is
// the same while that caller requests an existing tag, which keeps the machine
// as busy. It counts the answers to made-up names.
func BenchmarkMadeUpNames(b *testing.B) {
	for _, inFlight := range []int{1, 256} {
		b.Run(fmt.Sprintf("inflight=%d", inFlight), func(b *testing.B) {
			srv := natstest.Start(b)
			_, reserved := startWorker(b, srv, messages.DefaultPrefix, 1<<33, 1)
			known, conn := newCaller(b, srv.Connect(b), 1), srv.Connect(b)
			round := func(f *flood, name func() string) func() measured {
				return func() measured {
					stop := f.start(b, conn, inFlight, name)
					defer stop()
					return known.round(b, messages.DefaultPrefix.Segment(busyTag), requestRound)
				}
			}
			var calm, all flood
			names := 0
			before := reserved.Load()
			figures := inTurns(9, round(&calm, func() string { return busyTag }), round(&all, func() string {
				names++
				return fmt.Sprint("made-up-", names)
			}))
			p99 := func(m measured) float64 { return m.p99 }
			ratio := medianRatio(column(figures[1], p99), column(figures[0], p99))
			perSecond := func(n int64) float64 { return float64(n) / all.took.Seconds() }
			b.ReportMetric(ratio, "p99/calm")
			b.ReportMetric(perSecond(all.noTag.Load()), "404/s")
			b.ReportMetric(perSecond(all.busy.Load()), "429/s")
			b.ReportMetric(perSecond(all.unavailable.Load()), "503/s")
			b.ReportMetric(float64(reserved.Load()-before), "writes")
			b.ReportMetric(0, "ns/op")
			table.add(row{
				what: fmt.Sprintf("known tag beside %d made-up names in flight: p99", inFlight), unit: "µs", beside: "beside a known tag", ratio: ratio, bar: atMost(floodBar),
				subject: median(column(figures[1], p99)), baseline: median(column(figures[0], p99)),
				note: fmt.Sprintf("%d names", names),
			})
			if all.other.Load() > 0 {
				b.Errorf("%d made-up names got another answer", all.other.Load())
			}
			natstest.Eventually(b, "an unknown name to be 404 again", func() bool {
				names++
				reply, err := conn.Request(messages.DefaultPrefix.Segment(fmt.Sprint("after-", names)), nil, time.Second)
				return err == nil && reply.Header.Get(micro.ErrorCodeHeader) == "404"
			})
		})
	}
}

// flood counts requests, and their answers by code.
type flood struct {
	noTag, busy, unavailable, other atomic.Int64
	took                            time.Duration
}

// start requests IDs of a tag until stop is called, with a number of requests
// in flight on a single connection.
func (f *flood) start(b *testing.B, conn *nats.Conn, inFlight int, name func() string) (stop func()) {
	began := time.Now()
	replies := make(chan *nats.Msg, inFlight)
	sub, err := conn.ChanSubscribe(conn.NewInbox(), replies)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for open := 0; ; {
			for ; open < inFlight; open++ {
				_ = conn.PublishRequest(messages.DefaultPrefix.Segment(name()), sub.Subject, nil)
			}
			select {
			case m := <-replies:
				open--
				f.count(m.Header.Get(micro.ErrorCodeHeader))
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
		_ = sub.Unsubscribe()
		f.took += time.Since(began)
	}
}

func (f *flood) count(code string) {
	switch code {
	case "404":
		f.noTag.Add(1)
	case "429":
		f.busy.Add(1)
	case "503":
		f.unavailable.Add(1)
	default:
		f.other.Add(1)
	}
}
