package allocator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// newFirstUse returns a harness in which every tag that begins with t comes into being.
func newFirstUse(cfg allocator.Config) *harness {
	cfg.FirstUse = func(name string) (int64, error) {
		if !strings.HasPrefix(name, "t") {
			return 0, store.ErrNoTag
		}
		return 10, nil
	}
	return newHarness(cfg)
}

// first expects a request to be answered with that ID once what is asked for is granted.
func (h *harness) first(t *testing.T, tag string, want int64) {
	t.Helper()
	o := h.request(tag, 1)
	h.grantAll()
	if o.err != nil || len(o.ids) != 1 || o.ids[0].First != want {
		t.Fatalf("%s: %v, %v, want %d", tag, o.ids, o.err, want)
	}
}

// TestFirstUseIsForgotten when nobody has asked for it for a while, with what is left; one that is asked for is
// not, nor one that requests wait for. It comes back above.
func TestFirstUseIsForgotten(t *testing.T) {
	h := newFirstUse(allocator.Config{})
	if o := h.request("other", 1); !errors.Is(o.err, store.ErrNoTag) {
		t.Errorf("a tag that does not come into being: %v", o.err)
	}
	h.Update(map[string]int64{"order": 10})
	h.first(t, "t1", 1)
	h.first(t, "t2", 11)
	if n := h.DropIdle(); n != 0 {
		t.Fatalf("%d tags were forgotten at the first look", n)
	}
	h.first(t, "t2", 12)
	waits := h.request("t3", 1)
	if n := h.DropIdle(); n != 1 {
		t.Fatalf("%d tags were forgotten, want t1", n)
	}
	if n := h.DropIdle(); n != 1 || h.FirstUses() != 1 || h.Tags() != 2 {
		t.Fatalf("%d tags were forgotten, want t2; %d are left, %d in all", n, h.FirstUses(), h.Tags())
	}
	h.grantAll()
	if waits.answered != 1 || waits.ids[0].First != 21 {
		t.Errorf("the request that waited got %v, %v", waits.ids, waits.err)
	}
	h.first(t, "t1", 31)
}

// TestLateGrantOfForgottenTag: what was asked for before the tag was forgotten is burnt, for it may lie below
// what was handed out since.
func TestLateGrantOfForgottenTag(t *testing.T) {
	h := newFirstUse(allocator.Config{})
	o := h.request("t1", 1)
	early := h.asked[0]
	h.now = time.Second
	h.Tick()
	late := store.Segment{First: 1, End: 11} // reserved for the second asking
	h.Grant("t1", early.Seq, store.Segment{First: 11, End: 21})
	if o.answered != 1 {
		t.Fatal("not answered")
	}
	h.DropIdle()
	h.DropIdle()
	if h.FirstUses() != 0 {
		t.Fatal("not forgotten")
	}
	h.asked = nil
	o = h.request("t1", 1)
	if v := h.Grant("t1", early.Seq, late); v.Outcome != allocator.Burnt || o.answered != 0 {
		t.Fatalf("a grant from before: %v, %v", v, o.ids)
	}
	h.Grant("t1", h.asked[0].Seq, store.Segment{First: 21, End: 31})
	if o.answered != 1 || o.ids[0].First != 21 {
		t.Errorf("got %v, %v, want 21", o.ids, o.err)
	}
}

// TestFirstUsesAreBounded: tags that were never granted, be they made up, take no more than so much memory.
// Refused ones take none.
func TestFirstUsesAreBounded(t *testing.T) {
	full := errors.New("full")
	h := newFirstUse(allocator.Config{MaxFirstUses: 100})
	for round := range 3 {
		var parked []*outcome
		for i := range 150 {
			o := h.request(fmt.Sprint("t", round, "-", i), 1)
			if i < 100 {
				parked = append(parked, o)
			} else if !errors.Is(o.err, allocator.ErrBusy) {
				t.Fatalf("one too many: %v", o.err)
			}
		}
		for _, l := range h.asked {
			if !h.RefuseFirstUse(l.Tag, l.Seq, full) {
				t.Fatalf("%s was not forgotten", l.Tag)
			}
		}
		h.asked = nil
		for _, o := range parked {
			if o.answered != 1 || !errors.Is(o.err, full) {
				t.Fatalf("answered %d times with %v", o.answered, o.err)
			}
		}
		if h.Tags() != 0 || h.Parked() != 0 || h.Loading() != 0 {
			t.Fatalf("%d tags, %d parked requests, %d loads are left", h.Tags(), h.Parked(), h.Loading())
		}
	}
}

// TestFirstUsesOfOneTemplate: who makes names up for one template takes an eighth of the room, and the others
// have theirs. What is granted, refused or forgotten makes room.
func TestFirstUsesOfOneTemplate(t *testing.T) {
	h := newFirstUse(allocator.Config{MaxFirstUses: 80, Template: func(name string) string { return name[:2] }})
	for round := range 3 {
		var parked []*outcome
		for _, template := range []string{"t1", "t2"} {
			for i := range 100 {
				o := h.request(fmt.Sprint(template, round, "-", i), 1)
				if i < 10 {
					parked = append(parked, o)
				} else if !errors.Is(o.err, allocator.ErrBusy) {
					t.Fatalf("%s has one too many: %v", template, o.err)
				}
			}
		}
		h.grantAll()
		for _, o := range parked {
			if o.answered != 1 || o.err != nil {
				t.Fatalf("answered %d times with %v", o.answered, o.err)
			}
		}
	}
}

// TestReconsider: what a template says now counts; tags without one are removed.
func TestReconsider(t *testing.T) {
	h := newFirstUse(allocator.Config{})
	h.first(t, "t1", 1)
	h.first(t, "t2", 11)
	h.Reconsider(func(name string) int64 {
		if name == "t1" {
			return 50
		}
		return 0
	})
	if h.FirstUses() != 1 {
		t.Errorf("%d tags are left", h.FirstUses())
	}
	for range 9 {
		h.request("t1", 1)
	}
	if len(h.asked) == 0 || h.asked[0].Step < 50 {
		t.Errorf("asked for %+v, want a step of 50 or more", h.asked)
	}
	if missing, tags := h.Missing(nil); len(missing) != 0 || tags != 0 {
		t.Errorf("of %d tags these are missing from the directory: %v", tags, missing)
	}
}
