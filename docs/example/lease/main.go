// Command lease makes snowflake IDs in its own process, without a request for
// each. It leases a worker ID, so no other process makes the same IDs, not even
// an idworker serve with the same NATS server.
//
//	go run ./docs/example/lease
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	inbox := nats.CustomInboxPrefix("_INBOX_worker.generator") // of that user in nats.conf
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), nats.MaxReconnects(-1), inbox)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	const replicas = 1 // 3 with a cluster of NATS servers
	if err := lease.Create(ctx, js, messages.DefaultPrefix, lease.DefaultTTL, replicas); err != nil {
		return err
	}
	manager, err := lease.Open(ctx, lease.Config{JS: js, Layout: snowflake.Default()})
	if err != nil {
		return err
	}
	// The generator changes with the worker ID, and is nil without a worker ID.
	var ids atomic.Pointer[snowflake.Generator]
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { // when ctx ends, it releases the worker ID
		return manager.Run(ctx, func(s lease.State) {
			ids.Store(s.Generator)
			log.Printf("worker ID %d, error %v", s.Worker, s.Err)
		})
	})
	group.Go(func() error { return work(ctx, &ids) })
	return group.Wait()
}

// work uses IDs until ctx ends. Without an ID it tries again: the first claim
// takes a second, and a lost worker ID is replaced. A service would return 503.
func work(ctx context.Context, ids *atomic.Pointer[snowflake.Generator]) error {
	for ctx.Err() == nil {
		if g := ids.Load(); g != nil {
			if id, err := g.Next(); err == nil { // fails without the lease
				fmt.Println(id)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}
