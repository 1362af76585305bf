package answer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
)

// TestDirectAnswersAsByNATS: the same requests get the same replies, from the
// same buffers, and are counted in the same place.
func TestDirectAnswersAsByNATS(t *testing.T) {
	m := newMemory(nil)
	m.fill("strict", store.Strict, 1)
	e := m.Segments(new(atomic.Bool), open{})
	order := newRequest("order", "2")
	e.Handle(order)
	reply, err := m.Segment(t.Context(), "order", []byte("3"), true, "")
	// The ID 1 was dropped.
	if string(order.body) != "2-3" || string(reply) != "4-6" || err != nil {
		t.Errorf("got %q by NATS and %q, %v; want the IDs 2 to 6", order.body, reply, err)
	}
	for _, c := range []struct {
		tag, count string
		kept       bool
	}{{"order", "0", false}, {"order", "501", false}, {"order", "1e3", false}, {"or der", "", false}, {"", "", false}, {"strict", "", true}} {
		req := newRequest(c.tag, c.count)
		if c.kept {
			req.kept()
		}
		e.Handle(req)
		_, err := m.Segment(t.Context(), c.tag, []byte(c.count), c.kept, "")
		if got, ok := errors.AsType[*messages.Error](err); !ok || req.err == nil || *got != *req.err {
			t.Errorf("%+v: %v, and by NATS %v", c, err, req.err)
		}
	}
	expect(t, m.Answerer, map[string]float64{
		"requests_total/ok/segment": 2, "ids_total/segment": 5, "requests_total/400/segment": 10, "requests_total/409/segment": 2,
		"request_duration_seconds/segment/count": 14, "request_duration_seconds/segment/at once": 14,
	})
}

// TestDirectSnowflake: snowflake IDs come from the generator, and each of its
// errors has a code.
func TestDirectSnowflake(t *testing.T) {
	m, g := newMemory(nil), newGenerator(t)
	reply, err := m.Snowflake([]byte("3"), g, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := messages.DecodeRanges(reply, 3); err != nil {
		t.Error(err)
	}
	reply, err = m.Snowflake([]byte("none"), g, "")
	wantCode(t, "malformed", reply, err, messages.CodeMalformed)
	stopped := time.Now().UnixNano()
	still, err := snowflake.New(snowflake.Settings{
		Layout: snowflake.Default(), Fence: snowflake.Fence{Hi: snowflake.Forever},
		MaxAhead: time.Nanosecond, Clock: func() int64 { return stopped },
	})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		reply, err = m.Snowflake([]byte("500"), still, "")
	}
	wantCode(t, "ahead of the clock", reply, err, messages.CodeBusy)
	g.Revoke()
	reply, err = m.Snowflake(nil, g, "")
	wantCode(t, "revoked", reply, err, messages.CodeUnavailable)
}

func wantCode(t *testing.T, why string, reply []byte, err error, want messages.Code) {
	t.Helper()
	if got, ok := errors.AsType[*messages.Error](err); !ok || got.Code != want || reply != nil {
		t.Errorf("%s: %q, %v; want code %d", why, reply, err, want)
	}
}

// TestRefusedByTheProcess: a request that the process rejects is counted like
// others, and its error has a code.
func TestRefusedByTheProcess(t *testing.T) {
	m := newMemory(nil)
	if err := m.RefuseSegment("order", "", errors.New("stopping")); *err != (messages.Error{Code: messages.CodeUnavailable, Text: "stopping"}) {
		t.Error(err)
	}
	if err := m.RefuseSnowflake("", fmt.Errorf("no worker ID: %w", snowflake.ErrExhausted)); err.Code != messages.CodeExhausted {
		t.Error(err)
	}
	expect(t, m.Answerer, map[string]float64{
		"requests_total/503/segment": 1, "request_duration_seconds/segment/count": 1, "request_duration_seconds/segment/at once": 1,
		"requests_total/507/snowflake": 1, "request_duration_seconds/snowflake/count": 1, "request_duration_seconds/snowflake/at once": 1,
	})
	if got := m.Requests(); len(got) != 2 || got["503"] != 1 || got["507"] != 1 {
		t.Errorf("got %v, want one 503 and one 507", got)
	}
}

// TestWaitIsMeasured: the duration of a request is the time that it was parked.
// A request answered from a buffer counts as 0.
func TestWaitIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nil)
		var parked sync.WaitGroup
		for range 2 {
			parked.Go(func() {
				if _, err := m.Segment(t.Context(), "cold", nil, false, ""); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		time.Sleep(3 * time.Second)
		m.grant("cold", store.Trend, 10)
		parked.Wait()
		for range 5 {
			if _, err := m.Segment(t.Context(), "cold", nil, false, ""); err != nil {
				t.Error(err)
			}
		}
		expect(t, m.Answerer, map[string]float64{
			"requests_total/ok/segment": 7, "ids_total/segment": 7, "request_duration_seconds/segment/count": 7,
			"request_duration_seconds/segment/at once": 5, "request_duration_seconds/segment/sum": 6,
		})
	})
}

// TestDirectWithdraws: a caller that leaves frees the place of its parked
// request at once, and of no other request.
func TestDirectWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nil)
		gone := errors.New("gone")
		ctx, leave := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if reply, err := m.Segment(ctx, "cold", nil, false, ""); reply != nil || !errors.Is(err, gone) {
				t.Errorf("got %q, %v; want the cause why the caller has gone", reply, err)
			}
		})
		all.Go(func() {
			if _, err := m.Segment(t.Context(), "cold", nil, false, ""); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		leave(gone)
		synctest.Wait()
		if n := m.Parked(); n != 1 {
			t.Errorf("%d requests are parked, want 1", n)
		}
		time.Sleep(time.Second)
		m.grant("cold", store.Trend, 10)
		all.Wait()
		// The other had no reply.
		expect(t, m.Answerer, map[string]float64{
			"requests_total/ok/segment": 1, "ids_total/segment": 1,
			"request_duration_seconds/segment/count": 1, "request_duration_seconds/segment/sum": 1,
		})
	})
}

// TestCallerLeavesAsTheReplyComes: in either order, the caller gets IDs or the
// cause, no ID comes twice, and the reply does not block.
func TestCallerLeavesAsTheReplyComes(t *testing.T) {
	m := newMemory(nil)
	m.fill("strict", store.Strict, 1)
	seen := make(map[string]bool)
	left := 0
	for i := range 1000 {
		ctx, leave := context.WithCancel(t.Context())
		replies := make(chan []byte, 1)
		go func() {
			reply, err := m.Segment(ctx, "strict", nil, false, "")
			if (reply == nil) != errors.Is(err, context.Canceled) {
				t.Errorf("got %q, %v", reply, err)
			}
			replies <- reply
		}()
		var leaving sync.WaitGroup
		leaving.Go(func() {
			for range i % 8 { // so that either side is first at times
				runtime.Gosched()
			}
			leave()
		})
		var reply []byte
		for waits := true; waits; {
			select {
			case <-m.Ready():
				m.grant("strict", store.Strict, 1)
			case reply = <-replies:
				waits = false
			}
		}
		leaving.Wait()
		// The reply to a caller that left does not block.
		m.work("")
		switch {
		case reply == nil:
			left++
		case seen[string(reply)]:
			t.Fatalf("ID %s was handed out twice", reply)
		}
		seen[string(reply)] = true
	}
	if n := m.Parked(); n != 0 {
		t.Errorf("%d requests are still parked", n)
	}
	t.Logf("%d of 1000 callers left before the reply", left)
	if got := scrape(t, m.Answerer)["ids_total/segment"]; got != float64(1000-left) {
		t.Errorf("%v IDs are counted, want %d", got, 1000-left)
	}
}
