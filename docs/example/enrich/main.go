// Command enrich publishes orders without IDs, and stores them once idworker
// has added the IDs. Run an enricher beside it:
//
//	go run ./docs/example/enrich
//	bin/idworker enrich --from ORDERS --filter 'orders.raw.>' \
//	    --to 'orders.ready.>' --id segment:order
package main

import (
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
		// Enrichers publish in atomic batches.
		{Name: "ORDERS_READY", Subjects: []string{"orders.ready.>"}, AllowAtomicPublish: true},
	} {
		if _, err := js.CreateStream(ctx, s); !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			check(err)
		}
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

// store inserts an order with its ID as the key, as an SQL database would by
// INSERT ... ON CONFLICT DO NOTHING. An order that is redelivered, because this
// process died before the acknowledgement, has the same ID.
func store(ctx context.Context, table jetstream.KeyValue, msg jetstream.Msg) {
	id := msg.Headers().Get(enrich.HeaderID)
	switch _, err := table.Create(ctx, id, msg.Data()); {
	case err == nil:
		fmt.Println("stored", id)
	case errors.Is(err, jetstream.ErrKeyExists):
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
