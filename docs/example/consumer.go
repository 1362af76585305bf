package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// batch is the largest number of orders in a transaction.
const batch = 500

// persist moves the given number of orders from the stream into the table. It
// acknowledges an order after the commit, so a consumer that dies loses
// nothing: unacknowledged orders are delivered again, and the table's key
// detects duplicates.
func persist(ctx context.Context, js jetstream.JetStream, orders table, want int) error {
	consumer, err := js.CreateConsumer(ctx, "ORDERS_READY", jetstream.ConsumerConfig{
		Durable:       "database",
		FilterSubject: "orders.ready.>",
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       2 * time.Second, // short, to keep the example short
	})
	if err != nil {
		return err
	}
	forgotten, err := crash(ctx, consumer, orders)
	if err != nil {
		return err
	}
	for inserted, again := forgotten, 0; inserted < want || again < forgotten; {
		msgs, err := fetch(ctx, consumer, batch)
		if err != nil {
			return fmt.Errorf("%w, with %d of %d orders inserted and %d of %d met again", err, inserted, want, again, forgotten)
		}
		known, err := orders.insert(ctx, msgs)
		if err != nil {
			return err
		}
		for _, msg := range msgs {
			if err := msg.Ack(); err != nil {
				return err
			}
		}
		inserted, again = inserted+len(msgs)-known, again+known
	}
	fmt.Printf("inserted %d orders; %d were delivered twice, which the key made harmless\n", want, forgotten)
	return nil
}

// crash simulates a consumer that dies at the worst moment: it inserts orders
// without acknowledging them. It returns their number.
func crash(ctx context.Context, consumer jetstream.Consumer, orders table) (int, error) {
	msgs, err := fetch(ctx, consumer, batch/5)
	if err != nil {
		return 0, err
	}
	_, err = orders.insert(ctx, msgs)
	return len(msgs), err
}

// fetch waits for orders, and returns between 1 and n of them.
func fetch(ctx context.Context, consumer jetstream.Consumer, n int) (msgs []jetstream.Msg, err error) {
	for len(msgs) == 0 {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("waiting for orders: %w", err)
		}
		fetched, err := consumer.Fetch(n, jetstream.FetchMaxWait(250*time.Millisecond))
		if err != nil {
			return nil, err
		}
		for msg := range fetched.Messages() {
			msgs = append(msgs, msg)
		}
		if err := fetched.Error(); err != nil {
			return nil, err
		}
	}
	return msgs, nil
}
