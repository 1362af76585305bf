package main

import (
	"context"
	"errors"
	"io"
	"testing"
)

// TestReadsEndWithContext: commands that read standard input end on an
// interrupt such as Ctrl-C.
func TestReadsEndWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	if err := typeName(ctx, "order", "", "removed", input{silent}, output{Writer: io.Discard}); !errors.Is(err, context.Canceled) {
		t.Errorf("tag rm: %v", err)
	}
	if _, err := (&tagImportCmd{}).read(ctx, input{silent}); !errors.Is(err, context.Canceled) {
		t.Errorf("tag import: %v", err)
	}
}
