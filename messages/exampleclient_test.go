package messages_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

func ExampleClient_Next() {
	nc, stop := connectToWorker() // nats.Connect(nats.DefaultURL), as a rule
	defer stop()
	client := messages.NewClient(nc, messages.DefaultPrefix)

	// The client retries, while no worker answers, until the context ends.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	id, err := client.Next(ctx, "order")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(id)
	// Output: 1001
}

// A batch comes as ranges: usually a single range, two where a worker's segment
// ends.
func ExampleClient_NextN() {
	nc, stop := connectToWorker()
	defer stop()
	client := messages.NewClient(nc, messages.DefaultPrefix)

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ranges, err := client.NextN(ctx, "order", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ranges)
	for id := range messages.IDs(ranges) {
		fmt.Println(id)
	}
	// Output:
	// [1001-1003]
	// 1001
	// 1002
	// 1003
}

// A prefetcher buffers IDs before they are needed.
func ExampleClient_Prefetch() {
	nc, stop := connectToWorker()
	defer stop()
	client := messages.NewClient(nc, messages.DefaultPrefix)

	orders, err := client.Prefetch("order", messages.PrefetchConfig{Runway: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer orders.Close() // buffered IDs are then never used

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	different := make(map[int64]bool)
	for range 100_000 {
		id, err := orders.Next(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		different[id] = true
	}
	fmt.Println(len(different))
	// Output: 100000
}

// connectToWorker returns a connection to a server that issues IDs from 1001
// on, and a function that ends both.
func connectToWorker() (nc *nats.Conn, stop func()) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		panic(err)
	}
	srv.Start()
	if nc, err = nats.Connect(srv.ClientURL()); err != nil {
		panic(err)
	}
	next := int64(1001)
	_, err = nc.Subscribe(messages.DefaultPrefix.Segment(">"), func(req *nats.Msg) {
		n, err := messages.DecodeCount(req.Data, 10_000)
		if err != nil {
			panic(err)
		}
		_ = req.Respond(messages.AppendRange(nil, messages.Range{First: next, Last: next + n - 1}))
		next += n
	})
	if err != nil {
		panic(err)
	}
	return nc, func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}
