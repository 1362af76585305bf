package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// TestReadsEndWithContext: commands that read standard input end on an
// interrupt such as Ctrl-C.
func TestReadsEndWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	if err := confirm(ctx, "order", "", "removed", input{silent}, output{Writer: io.Discard}); !errors.Is(err, context.Canceled) {
		t.Errorf("tag rm: %v", err)
	}
	if _, err := (&tagImportCmd{}).read(ctx, input{silent}); !errors.Is(err, context.Canceled) {
		t.Errorf("tag import: %v", err)
	}
	if err := (hashCmd{}).Run(ctx, output{Writer: io.Discard}, input{silent}); !errors.Is(err, context.Canceled) {
		t.Errorf("hash: %v", err)
	}
}

// TestTagUse: tag ls shows which part of the IDs granted to workers was issued,
// for the tags that a worker holds.
func TestTagUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("tag create order --step 1000")
	s.must("tag create unused")
	s.answered("get order 101")
	var list struct {
		Tags []struct {
			Tag             string
			Granted, Issued int64 `json:",string"`
		}
	}
	// A call that waits repeats its request, and late answers count as issued.
	natstest.Eventually(t, "both lists show the same", func() bool {
		if err := json.Unmarshal([]byte(s.must("tag ls --json")), &list); err != nil {
			t.Fatal(err)
		}
		order, unused := list.Tags[0], list.Tags[1]
		if order.Issued == 0 { // no worker answered in time
			return false
		}
		if order.Issued < 101 || order.Issued%101 != 0 || order.Granted < 1000 || order.Issued > order.Granted || unused.Granted != 0 {
			t.Fatalf("%+v", list)
		}
		want := fmt.Sprintf(" trend  %.3g%%\n", 100*float64(order.Issued)/float64(order.Granted))
		out := s.must("tag ls")
		return strings.Contains(out, want) && strings.HasSuffix(out, " trend  -\n")
	})
}
