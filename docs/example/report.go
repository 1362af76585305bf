package main

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// report prints the results, and fails unless every order is accounted for.
func report(ctx context.Context, js jetstream.JetStream, orders table, good, broken int) error {
	if err := orders.printFirst(ctx, 5); err != nil {
		return err
	}
	rows, different, err := orders.count(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%6d rows\n", rows)
	dead, err := printDeadLetters(ctx, js)
	if err != nil {
		return err
	}
	switch {
	case rows != good || different != good:
		return fmt.Errorf("%d rows with %d different orders, want %d", rows, different, good)
	case dead != broken:
		return fmt.Errorf("%d dead letters, want %d", dead, broken)
	}
	fmt.Println("every good order is there once, every broken one is a dead letter")
	return nil
}

// printDeadLetters prints the orders that could not be enriched, with reasons.
// A dead letter is published before the orders behind it, so once those have
// arrived, none is missing.
func printDeadLetters(ctx context.Context, js jetstream.JetStream) (n int, err error) {
	consumer, err := js.OrderedConsumer(ctx, "ORDERS_READY", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"orders.dead"}})
	if err != nil {
		return 0, err
	}
	info, err := consumer.Info(ctx)
	if err != nil || info.NumPending == 0 {
		return 0, err
	}
	msgs, err := fetch(ctx, consumer, int(info.NumPending))
	for _, msg := range msgs {
		fmt.Printf("dead letter: %s\n", msg.Headers().Get("Ids-Error"))
	}
	return len(msgs), err
}
