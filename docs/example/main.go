// Command example adds IDs to events on their way into a database. A producer
// publishes orders without IDs, idworker enrich adds the IDs, and a consumer
// inserts the orders into a table with the ID as primary key.
//
//	producer ─▶ ORDERS ─▶ idworker enrich ─▶ ORDERS_READY ─▶ consumer ─▶ table
//	      orders.raw.>    (two processes)    orders.ready.>
//	                                         orders.dead
//
// Run it with make example. It needs nothing else, takes a few seconds, leaves
// nothing behind, and fails unless every good order is in the table exactly
// once.
//
// It is a separate module, so that idworker does not depend on its database
// driver.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: example PATH-OF-IDWORKER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// timeout bounds the run, which takes a few seconds.
const timeout = 25 * time.Second

func run(ctx context.Context, binary string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "idworker-example-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	ids, err := serve(ctx, binary, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ids.stop(err != nil)) }()
	js, err := jetstream.New(ids.conn)
	if err != nil {
		return err
	}
	if err := createStreams(ctx, js); err != nil {
		return err
	}
	if err := ids.createTag(ctx, "order"); err != nil {
		return err
	}
	for range 2 { // more would share the work
		if err := ids.start("enrich", "--server", ids.url, "--from", "ORDERS", "--filter", "orders.raw.>",
			"--to", "orders.ready.>", "--id", "segment:order", "--json", "id", "--dead-letter", "orders.dead"); err != nil {
			return err
		}
	}

	good, broken, err := produce(ctx, js)
	if err != nil {
		return err
	}
	fmt.Printf("published %d orders without IDs, and %d that are broken\n", good, broken)

	orders, err := openTable(ctx, filepath.Join(dir, "orders.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, orders.close()) }()
	if err := persist(ctx, js, orders, good); err != nil {
		return err
	}
	return report(ctx, js, orders, good, broken)
}

// createStreams creates the source, for orders without IDs, and the target, for
// orders with IDs. The target allows atomic batches: idworker enrich needs them
// so that no event arrives twice.
func createStreams(ctx context.Context, js jetstream.JetStream) error {
	for _, s := range []jetstream.StreamConfig{
		{Name: "ORDERS", Subjects: []string{"orders.raw.>"}},
		{Name: "ORDERS_READY", Subjects: []string{"orders.ready.>", "orders.dead"}, AllowAtomicPublish: true},
	} {
		if _, err := js.CreateStream(ctx, s); err != nil {
			return fmt.Errorf("create stream %s: %w", s.Name, err)
		}
	}
	return nil
}
