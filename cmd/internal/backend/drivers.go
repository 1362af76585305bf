package backend

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/store/ledger"
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
	name := string(MySQL) + " " + config.Name()
	open := func() (databaseStore, error) { return config.Open(), nil }
	return Backend{MySQL, name, sql{name, config.Server(), open}}, nil
}

func parsePostgres(dsn, table string) (Backend, error) {
	config, err := postgres.Parse(dsn, table)
	if err != nil {
		return Backend{}, err
	}
	name := string(Postgres) + " " + config.Name()
	open := func() (databaseStore, error) { return config.Open() }
	return Backend{Postgres, name, sql{name, config.Server(), open}}, nil
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

func (counters) Resources(prefix messages.Prefix, replicas int) []resource.Resource {
	return []resource.Resource{CounterBucket(prefix, replicas)}
}

func (counters) Rights(prefix messages.Prefix, role rights.Role) rights.Rights {
	return jetstreamstore.Rights(prefix, role)
}

func (counters) open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, _ Ledger) (*Store, error) {
	s, err := jetstreamstore.Open(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	return &Store{Remembering: s}, nil
}

// sql is the driver of stores in databases.
type sql struct {
	name   string
	server string
	create func() (databaseStore, error)
}

// databaseStore is a store in a database.
type databaseStore interface {
	store.Store
	database
}

func (sql) Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	return ledger.Create(ctx, js, prefix, replicas)
}

func (sql) Buckets(prefix messages.Prefix) []string { return []string{ledger.BucketName(prefix)} }

func (sql) Resources(prefix messages.Prefix, replicas int) []resource.Resource {
	return []resource.Resource{ledger.Bucket(prefix, replicas)}
}

func (sql) Rights(prefix messages.Prefix, role rights.Role) rights.Rights {
	return ledger.Rights(prefix, role)
}

func (s sql) open(_ context.Context, js jetstream.JetStream, prefix messages.Prefix, with Ledger) (*Store, error) {
	db, err := s.create()
	if err != nil {
		return nil, err
	}
	l := ledger.New(db, ledger.Config{JetStream: js, Prefix: prefix, Mode: with.Mode, StoreName: s.name, Server: s.server, Log: with.Log})
	return &Store{Remembering: l, database: db, ledger: l}, nil
}
