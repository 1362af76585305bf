// Command enrich publishes orders without IDs, and stores them once idworker
// has added the IDs. Run an enricher beside it:
//
//	go run ./docs/example/enrich
//	bin/idworker enrich --from ORDERS --filter 'orders.raw.>' --to 'orders.ready.>' --id segment:order
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages/enrich"
)

func main() {
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), nats.MaxReconnects(-1))
	check(err)
	js, err := jetstream.New(nc)
	check(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, s := range []jetstream.StreamConfig{
		{Name: "ORDERS", Subjects: []string{"orders.raw.>"}},
		{Name: "ORDERS_READY", Subjects: []string{"orders.ready.>"}, AllowAtomicPublish: true},
	} {
		_, err := js.CreateOrUpdateStream(ctx, s)
		check(err)
	}
	for n := range 10 { // in production, another service does that
		_, err := js.Publish(ctx, "orders.raw.de", fmt.Appendf(nil, `{"customer":"ada","cents":%d}`, 100+n))
		check(err)
	}
	table, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "orders"})
	check(err)
	consumer, err := js.CreateOrUpdateConsumer(ctx, "ORDERS_READY", jetstream.ConsumerConfig{Durable: "table", FilterSubject: "orders.ready.>"})
	check(err)
	consuming, err := consumer.Consume(func(msg jetstream.Msg) { store(ctx, table, msg) },
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { log.Print(err) }))
	check(err)
	context.AfterFunc(ctx, consuming.Stop)
	<-consuming.Closed()
}

// store inserts an order with its ID as the key. An order that is redelivered,
// because this process died before the acknowledgement, has the same ID.
func store(ctx context.Context, table jetstream.KeyValue, msg jetstream.Msg) {
	id := msg.Headers().Get(enrich.HeaderID)
	switch _, err := table.Create(ctx, id, msg.Data()); {
	case err == nil:
		fmt.Println("stored", id)
	case errors.Is(err, jetstream.ErrKeyExists):
		if old, err := table.Get(ctx, id); err != nil || !bytes.Equal(old.Value(), msg.Data()) {
			log.Fatalf("another order has the ID %s (%v)", id, err)
		}
		fmt.Println("known", id)
	default:
		log.Print(err)
		_ = msg.NakWithDelay(time.Second)
		return
	}
	_ = msg.Ack() // if it fails, the order is redelivered
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
