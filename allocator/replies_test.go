package allocator_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// TestRepliesAndLoads: they are announced, returned once, and in order; and a
// request counts as parked until its reply was returned.
func TestRepliesAndLoads(t *testing.T) {
	now := time.Duration(0)
	a := allocator.New(allocator.Config{Clock: func() time.Duration { return now }})
	want := func(when string, ready bool, loads, parkedBefore, parkedAfter int, froms ...any) ([]allocator.Load, []allocator.Reply) {
		t.Helper()
		if (len(a.Ready()) == 1) != ready || a.Parked() != parkedBefore {
			t.Errorf("%s: ready %d, %d parked; want %t and %d", when, len(a.Ready()), a.Parked(), ready, parkedBefore)
		}
		if ready {
			<-a.Ready()
		}
		var sent []allocator.Load
		for l, ok := a.Send(); ok; l, ok = a.Send() {
			sent = append(sent, l)
		}
		replies := a.Replies()
		var got []any
		for _, r := range replies {
			got = append(got, r.From)
		}
		if len(sent) != loads || !slices.Equal(got, froms) || a.Parked() != parkedAfter {
			t.Errorf("%s: %+v, %+v, %d parked; want %d loads, replies to %v, and %d parked", when, sent, replies, a.Parked(), loads, froms, parkedAfter)
		}
		return sent, replies
	}
	park := func(from any, n int64) {
		t.Helper()
		if ids, err := a.TakeOrPark(allocator.Request{Tag: "order", N: n, From: from}); ids != nil || err != nil {
			t.Fatalf("got %v, %v; want it parked", ids, err)
		}
	}
	want("nothing happened", false, 0, 0, 0)
	park("a", 1)
	first, _ := want("a cold tag", true, 1, 1, 1)
	want("it was returned", false, 0, 1, 1)
	park("b", 2)
	park("c", 100)
	park("d", 1)
	want("more requests for the same load", false, 0, 4, 4)
	grant := func(seq uint64, s store.Segment) {
		a.Answer("order", seq, allocator.Answer{Segment: s, Step: 10, Order: store.Trend})
	}
	grant(first[0].Seq, seg(1, 11)) // not enough for c
	a.Withdraw("order", "c")
	park("e", 50)
	now = allocator.DefaultWait
	a.Tick()
	loads, replies := want("replies of three changes", true, 1, 4, 0, "a", "b", "d", "e")
	if replies[2].IDs[0] != seg(4, 5) || !errors.Is(replies[3].Err, allocator.ErrNoSegment) {
		t.Errorf("replies %+v", replies)
	}
	a.Take("order", 6)
	want("the load is under way", false, 0, 0, 0)
	grant(loads[0].Seq, seg(11, 21))
	want("a grant without requests", false, 0, 0, 0)
	if _, err := a.TakeOrPark(allocator.Request{Tag: "order", N: 5}); err != nil {
		t.Error(err)
	}
	want("a request that was answered at once, and made the next load due", true, 1, 0, 0)
}

// TestNothingIsLost: several goroutines change many tags, and another sends
// replies and loads when they are ready. All requests are answered.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	const callers, tags, rounds = 4, 20, 500
	a := allocator.New(allocator.Config{Clock: func() time.Duration { return 0 }})
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			replies := make(chan allocator.Reply, 1)
			for i := range rounds {
				tag := string(rune('a' + (i*(c+1))%tags))
				ids, err := a.TakeOrPark(allocator.Request{Tag: tag, N: 3, From: replies})
				if ids == nil && err == nil {
					err = (<-replies).Err
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	next := int64(1)
	for {
		select {
		case <-done:
			if a.Parked() != 0 {
				t.Errorf("%d requests are parked", a.Parked())
			}
			return
		case <-a.Ready():
		}
		for l, ok := a.Send(); ok; l, ok = a.Send() {
			s := seg(next, next+l.Want)
			next = s.End
			a.Answer(l.Tag, l.Seq, allocator.Answer{Segment: s, Order: store.Strict})
		}
		for _, r := range a.Replies() {
			r.From.(chan allocator.Reply) <- r
		}
	}
}
