package answer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/internal/answer"
)

// TestPrefetchedSnowflakes: a prefetcher of snowflake IDs gets each of them
// once, also from workers whose layout has no 10,000 IDs in the time by which
// they may be ahead of the clock.
func TestPrefetchedSnowflakes(t *testing.T) {
	for layout, maxAhead := range map[string]time.Duration{
		"default":                      time.Second,
		"js":                           time.Second,
		"41:1ms/w18/s4@1735689600000":  time.Millisecond, // at most 32 in a batch
		"39:10ms/w20/s4@1735689600000": time.Second,      // at most 1,616
	} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			l, err := snowflake.ParseLayout(layout)
			if err != nil {
				t.Fatal(err)
			}
			g, err := snowflake.New(snowflake.Settings{Layout: l, Fence: snowflake.Fence{Hi: snowflake.Forever}, MaxAhead: maxAhead})
			if err != nil {
				t.Fatal(err)
			}
			srv := natstest.Start(t)
			answers := answer.New(answer.Config{Prefix: messages.DefaultPrefix, MaxBatch: 10_000}, nil)
			conn := srv.Connect(t)
			service, err := micro.AddService(conn, micro.Config{Name: "snowflake", Version: "0.0.0"})
			if err != nil {
				t.Fatal(err)
			}
			if err := service.AddEndpoint("snowflake", answers.Snowflakes(g, new(atomic.Bool)), micro.WithEndpointSubject(messages.DefaultPrefix.Snowflake())); err != nil {
				t.Fatal(err)
			}
			if err := conn.Flush(); err != nil {
				t.Fatal(err)
			}
			p, err := messages.NewClient(srv.Connect(t), messages.DefaultPrefix).PrefetchSnowflake(messages.PrefetchConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
			defer cancel()
			seen := make(map[int64]bool)
			for range 2000 {
				id, err := p.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if seen[id] {
					t.Fatalf("ID %d came twice", id)
				}
				seen[id] = true
			}
			t.Log(answers.Requests())
		})
	}
}
