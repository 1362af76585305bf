package nemesis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// beginReplicas leaves a stream with one replica, until it is mended.
func (r *Run) beginReplicas(stream string) (mend func() error, err error) {
	set := func(replicas int) error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s, err := r.cluster.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		config := s.CachedInfo().Config
		config.Replicas = replicas
		_, err = r.cluster.js.UpdateStream(ctx, config)
		return err
	}
	return func() error {
		err := natstest.Await(time.Minute, "three replicas", func() error { return set(len(servers)) })
		for _, server := range servers {
			err = errors.Join(err, r.cluster.awaitHealth(server))
		}
		return err
	}, set(1)
}

// beginRemoved kills a server, and has the others remove it. When it is mended,
// the server comes back under its name.
func (r *Run) beginRemoved(server string) (mend func() error, err error) {
	conn, err := nats.Connect(strings.Join(r.cluster.urls(), ","), nats.UserInfo("system", "system"), nats.Name("removes"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	p := r.programs[server]
	p.Kill()
	err = natstest.Await(20*time.Second, "a server to be removed", func() error {
		answer, err := conn.Request("$JS.API.SERVER.REMOVE", []byte(`{"peer":"`+server+`"}`), 2*time.Second)
		if err != nil {
			return err
		}
		var reply struct {
			Error *struct {
				Description string `json:"description"`
			} `json:"error"`
		}
		if err := json.Unmarshal(answer.Data, &reply); err != nil {
			return err
		}
		if reply.Error != nil {
			return fmt.Errorf("%w: %s", errNotRemoved, reply.Error.Description)
		}
		return nil
	})
	return func() error {
		p.Release()
		return r.cluster.awaitHealth(server)
	}, err
}

// errNotRemoved: the servers have not removed another one.
var errNotRemoved = errors.New("not removed")

// stepDowns has the leaders of a stream give way, one after the other.
func (r *Run) stepDowns(stream string) (mend func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for range ticks(ctx, 200*ms) {
			_ = r.cluster.stepDown(stream) // there may be no leader
		}
	})
	return func() error { cancel(); wg.Wait(); return nil }
}
