package enrich_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
)

// An enricher, as idworker enrich runs it.
func Example() {
	nc, js, stop := connect()
	defer stop()
	ctx, end := context.WithCancel(context.Background())
	defer end()
	for _, s := range []jetstream.StreamConfig{
		{Name: "ORDERS", Subjects: []string{"orders.raw.>"}},
		{Name: "ORDERS_READY", Subjects: []string{"orders.ready.>"}, AllowAtomicPublish: true},
	} {
		if _, err := js.CreateStream(ctx, s); err != nil {
			fmt.Println(err)
			return
		}
	}
	_, err := js.Publish(ctx, "orders.raw.de", []byte(`{"customer":"ada"}`))
	if err != nil {
		fmt.Println(err)
		return
	}

	enricher, err := enrich.Open(ctx, enrich.Config{
		Conn: nc, JetStream: js, IDs: new(counter), // messages.NewClient, as a rule
		From: "ORDERS", Filter: "orders.raw.>", To: "orders.ready.>", ID: "segment:order", JSON: "id",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan struct{})
	go func() {
		enricher.Run(ctx)
		close(ended)
	}()

	consumer, err := js.OrderedConsumer(ctx, "ORDERS_READY", jetstream.OrderedConsumerConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	msg, err := consumer.Next()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(msg.Subject(), msg.Headers().Get(enrich.HeaderID), string(msg.Data()))
	end()
	<-ended
	// Output: orders.ready.de 1 {"customer":"ada","id":"1"}
}

// counter issues IDs from 1 on.
type counter struct{ last atomic.Int64 }

func (c *counter) NextN(_ context.Context, _ string, n int64) ([]messages.Range, error) {
	last := c.last.Add(n)
	return []messages.Range{{First: last - n + 1, Last: last}}, nil
}

func (c *counter) SnowflakeN(ctx context.Context, n int64) ([]messages.Range, error) {
	return c.NextN(ctx, "", n)
}

// connect returns a connection to a server, its JetStream, and a function that
// ends both.
func connect() (nc *nats.Conn, js jetstream.JetStream, stop func()) {
	dir, err := os.MkdirTemp("", "idworker-example-")
	if err != nil {
		panic(err)
	}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		panic(err)
	}
	srv.Start()
	if nc, err = nats.Connect(srv.ClientURL()); err != nil {
		panic(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		panic(err)
	}
	return nc, js, func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}
