package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// order is an order of the shop, without an ID.
type order struct {
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

const (
	orders      = 2000
	brokenEvery = 400 // every 400th order is truncated
)

// produce publishes the orders on a subject per country. It does not depend on
// idworker: the stream keeps the orders until they can be enriched.
func produce(ctx context.Context, js jetstream.JetStream) (good, broken int, err error) {
	countries := []string{"at", "de", "fr"}
	acks := make([]jetstream.PubAckFuture, 0, orders)
	for i := range orders {
		data, err := json.Marshal(order{Customer: fmt.Sprintf("customer-%d", i%97), Cents: int64(100 + i)})
		if err != nil {
			return 0, 0, err
		}
		if i%brokenEvery == brokenEvery/2 {
			data = data[:len(data)/2]
			broken++
		} else {
			good++
		}
		ack, err := js.PublishAsync("orders.raw."+countries[i%len(countries)], data)
		if err != nil {
			return 0, 0, err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return 0, 0, fmt.Errorf("publish: %w", err)
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("publish: %w", ctx.Err())
		}
	}
	return good, broken, nil
}
