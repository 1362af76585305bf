package lease_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

func Example() {
	js, stop := connect() // jetstream.New, as a rule
	defer stop()
	ctx, release := context.WithCancel(context.Background())
	defer release()

	err := lease.Create(ctx, js, messages.DefaultPrefix, lease.DefaultTTL, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	manager, err := lease.Open(ctx, lease.Config{JS: js, Layout: snowflake.Default()})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = manager.Run(ctx, func(s lease.State) {
		if s.Generator == nil {
			fmt.Println("no worker ID:", s.Err)
			return
		}
		id, err := s.Generator.Next()
		fmt.Println(snowflake.Default().WorkerID(id) == s.Worker, err)
		release() // a program would do that when it ends
	})
	fmt.Println("released", err)
	// Output:
	// true <nil>
	// released <nil>
}

// connect returns a server's JetStream, and a function that ends the server.
func connect() (js jetstream.JetStream, stop func()) {
	dir, err := os.MkdirTemp("", "idworker-example-")
	if err != nil {
		panic(err)
	}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true, NoLog: true})
	if err != nil {
		panic(err)
	}
	srv.Start()
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		panic(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		panic(err)
	}
	return js, func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}
