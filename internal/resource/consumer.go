package resource

import (
	"context"
	"errors"
	"reflect"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/rights"
)

// consumer is a durable pull consumer.
type consumer struct {
	stream string
	config jetstream.ConsumerConfig
}

// Consumer is a durable consumer of a stream. Its configuration has to name everything
// for which the server has a default of its own.
func Consumer(stream string, config jetstream.ConsumerConfig) Resource {
	return consumer{stream, config}
}

func (c consumer) String() string { return "consumer " + c.config.Durable + " of stream " + c.stream }

// InfoSubject implements [Resource].
func (c consumer) InfoSubject() string { return rights.ConsumerInfo(c.stream, c.config.Durable) }

// Look implements [Resource]. The settings are the server's matter once it is there.
func (c consumer) Look(ctx context.Context, js jetstream.JetStream) (Found, error) {
	_, err := js.Consumer(ctx, c.stream, c.config.Durable)
	return Found{}, err
}

// Ensure implements [Resource].
func (c consumer) Ensure(ctx context.Context, js jetstream.JetStream) error {
	_, err := js.Consumer(ctx, c.stream, c.config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = js.CreateOrUpdateConsumer(ctx, c.stream, c.config)
		return missing(c, err)
	}
	return err
}

// Apply implements [Resource].
func (c consumer) Apply(ctx context.Context, js jetstream.JetStream) (did string, err error) {
	found, err := js.Consumer(ctx, c.stream, c.config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = js.CreateOrUpdateConsumer(ctx, c.stream, c.config)
		return created, missing(c, err)
	}
	if err != nil {
		return "", err
	}
	before := found.CachedInfo().Config
	after, err := js.CreateOrUpdateConsumer(ctx, c.stream, c.config)
	if err != nil {
		return "", err
	}
	if reflect.DeepEqual(before, after.CachedInfo().Config) {
		return asIs, nil
	}
	return "changed", nil
}
