package backend

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/store/mysql"
	"github.com/idworker/idworker/store/postgres"
)

func parseJetStream(_, _ string) (Backend, error) {
	return Backend{JetStream, string(JetStream), counters{}}, nil
}

func parseMySQL(dsn, table string) (Backend, error) {
	config, err := mysql.Parse(dsn, table)
	if err != nil {
		return Backend{}, err
	}
	open := func() (store.Store, error) { return config.Open(), nil }
	return Backend{MySQL, string(MySQL) + " " + config.Name(), sql(open)}, nil
}

func parsePostgres(dsn, table string) (Backend, error) {
	config, err := postgres.Parse(dsn, table)
	if err != nil {
		return Backend{}, err
	}
	open := func() (store.Store, error) { return config.Open() }
	return Backend{Postgres, string(Postgres) + " " + config.Name(), sql(open)}, nil
}

// counters is the driver of the store in JetStream.
type counters struct{}

func (counters) Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	if err := prefix.Check(); err != nil {
		return err
	}
	return resource.Ensure(ctx, js, CounterBucket(prefix, replicas))
}

func (counters) Buckets(prefix messages.Prefix) []string {
	return []string{jetstreamstore.BucketName(prefix)}
}

func (counters) open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (store.Store, error) {
	return jetstreamstore.Open(ctx, js, prefix)
}

// sql is the driver of stores in databases: what opens one.
type sql func() (store.Store, error)

func (sql) Create(context.Context, jetstream.JetStream, messages.Prefix, int) error { return nil }

func (sql) Buckets(messages.Prefix) []string { return nil }

func (s sql) open(context.Context, jetstream.JetStream, messages.Prefix) (store.Store, error) {
	return s()
}
