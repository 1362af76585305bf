package leaf

import (
	"context"
	"fmt"
	"time"
)

// CallTimeout bounds every call but Tags, which has [UntilSilent], and each step of making a connection, so that
// a database that is stopped rather than gone is noticed. Callers give up after the same
// time anyway. Tests have a longer one.
var CallTimeout = 3 * time.Second

// MaxConns is the number of connections of one process. Each is busy for one round trip
// per reservation, and a database has to serve many processes.
const MaxConns = 8

// ListSilence is how long a database may send nothing while it lists its tags, of which there may be any
// number.
const ListSilence = 10 * time.Second

// UntilSilent returns a context that ends when heard has not been called for ListSilence.
func UntilSilent(ctx context.Context) (_ context.Context, heard, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(ListSilence, func() {
		end(fmt.Errorf("nothing has come for %v: %w", ListSilence, context.DeadlineExceeded))
	})
	return ctx, func() { timer.Reset(ListSilence) }, func() {
		timer.Stop()
		end(nil)
	}
}
