package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// givers issue IDs in order, at most limit at once, and record the requests.
type givers struct {
	limit, next int64
	asked       []int64
	fail        error // after failAfter replies
	failAfter   int
}

func (w *givers) give(_ context.Context, n int64) ([]messages.Range, error) {
	w.asked = append(w.asked, n)
	switch {
	case n > w.limit:
		return nil, &messages.Error{Code: messages.CodeMalformed, Text: "too many", MaxCount: w.limit}
	case w.fail != nil && w.failAfter == 0:
		return nil, w.fail
	}
	w.failAfter--
	first := w.next + 1
	w.next += n
	return []messages.Range{{First: first, Last: w.next}}, nil
}

// More than a batch takes as few requests as workers allow, and exactly as many
// IDs arrive.
func TestGetInBatches(t *testing.T) {
	for _, c := range []struct {
		n, limit int64
		asked    []int64
	}{
		{1, 10, []int64{1}},
		{10, 10, []int64{10}},
		{11, 10, []int64{11, 10, 1}},
		{25, 10, []int64{25, 10, 10, 5}},
		{3, 1, []int64{3, 1, 1, 1}},
	} {
		w := &givers{limit: c.limit}
		var had int64
		err := getIDs(t.Context(), w.give, c.n, time.Minute, func(ranges []messages.Range) { had += ranges[0].Len() })
		if err != nil || had != c.n || w.next != c.n || !slices.Equal(w.asked, c.asked) {
			t.Errorf("%d with at most %d: %d IDs, %d given, asked for %v, %v", c.n, c.limit, had, w.next, w.asked, err)
		}
	}
}

// A failure ends the loop: without requests for 0 IDs, and without endless
// retries.
func TestGetFails(t *testing.T) {
	odd := func(text string, most int64) nextIDs {
		return func(context.Context, int64) ([]messages.Range, error) {
			return nil, &messages.Error{Code: messages.CodeMalformed, Text: text, MaxCount: most}
		}
	}
	for name, next := range map[string]nextIDs{
		"a limit of 0":          odd("malformed count", 0),
		"a limit above":         odd("malformed count", 100),
		"a limit of just that":  odd("malformed count", 10),
		"a limit in the text":   odd("count 10 is too large, allowed is a decimal from 1 to 5", 0), // version 0.2.0
		"something else is odd": odd("malformed tag", 0),
		"used up in the middle": (&givers{limit: 4, fail: messages.ErrExhausted, failAfter: 1}).give,
		"no worker":             func(context.Context, int64) ([]messages.Range, error) { return nil, nats.ErrNoResponders },
	} {
		if err := getIDs(t.Context(), next, 10, time.Minute, func([]messages.Range) {}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Each request has the whole timeout. Only without a worker does the first fail
// after a second.
func TestGetTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, n int64) ([]messages.Range, error) {
			if n > 2 {
				return (&givers{limit: 2}).give(ctx, n)
			}
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("%w: %w", ctx.Err(), messages.ErrUnavailable)
			case <-time.After(4 * time.Second):
				return []messages.Range{{First: 1, Last: n}}, nil
			}
		}
		if err := getIDs(t.Context(), slow, 6, 5*time.Second, func([]messages.Range) {}); err != nil {
			t.Errorf("three requests of 4 s each, with 5 s for each: %v", err)
		}
		began := time.Now()
		err := getIDs(t.Context(), func(ctx context.Context, _ int64) ([]messages.Range, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("%w: %w", ctx.Err(), nats.ErrNoResponders)
		}, 1, time.Hour, func([]messages.Range) {})
		if took := time.Since(began); !errors.Is(err, nats.ErrNoResponders) || took != noWorkerTimeout {
			t.Errorf("no worker: %v after %v", err, took)
		}
	})
}

// The IDs before an error are printed, and the error has their number.
func TestIDPrinter(t *testing.T) {
	failed := errors.New("failed")
	two := []messages.Range{{First: 7, Last: 8}, {First: 1 << 62, Last: 1 << 62}}
	for _, c := range []struct {
		json, ranges bool
		want         string
	}{
		{false, false, "7\n8\n4611686018427387904\n"},
		{false, true, "7-8\n4611686018427387904\n"},
		{true, false, `{"tag":"order","ids":["7","8","4611686018427387904"]}`},
		{true, true, `{"tag":"order","ranges":[{"first":"7","last":"8"},{"first":"4611686018427387904","last":"4611686018427387904"}]}`},
	} {
		for _, err := range []error{nil, failed} {
			var out strings.Builder
			p := newIDPrinter(output{Writer: &out, JSON: c.json}, "order", c.ranges)
			p.add(two)
			ended := p.end(err, 5)
			if !errors.Is(ended, err) || err != nil && !strings.Contains(ended.Error(), "printed 3 of 5 IDs") {
				t.Errorf("%v", ended)
			}
			got := out.String()
			if c.json {
				var compact bytes.Buffer
				if err := json.Compact(&compact, []byte(got)); err != nil {
					t.Fatal(err)
				}
				got = strings.TrimSpace(compact.String())
			}
			if got != c.want {
				t.Errorf("printed %q, want %q", got, c.want)
			}
		}
	}
	var out strings.Builder
	p := newIDPrinter(output{Writer: &out, JSON: true}, "order", false)
	if err := p.end(failed, 5); !errors.Is(err, failed) || out.Len() > 0 {
		t.Errorf("an error before the first ID: %v, printed %q", err, out.String())
	}
}
