package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/store/mysql"
	"github.com/idworker/idworker/store/postgres"
)

// storeFlags say where segments come from.
type storeFlags struct {
	Store     string `help:"Where segments come from: jetstream, mysql://user:password@tcp(host:port)/db or postgres://…; prefer the variable or the file for passwords." default:"jetstream" placeholder:"DSN"`
	StoreFile string `help:"File with the DSN, instead of --store." placeholder:"FILE"`
	Table     string `help:"Leaf's table in the database." default:"leaf_alloc"`
}

// segmentStore is an open store with its name, see worker.ClaimStore.
type segmentStore struct {
	store.Store
	name  string
	close func() error // nil if there is nothing to close
}

// The kinds of store.
const (
	kindJetStream = "jetstream"
	kindMySQL     = "mysql"
	kindPostgres  = "postgres"
)

// database is what the SQL stores have in common.
type database interface {
	store.Store
	Check(ctx context.Context) error
	Migrate(ctx context.Context) error
	Name() string // of the table, with its database
	Close() error
}

// dsn returns the DSN, from the file if there is one, and the kind of store it names.
func (f storeFlags) dsn() (dsn, kind string, err error) {
	dsn = f.Store
	if f.StoreFile != "" {
		data, err := os.ReadFile(f.StoreFile)
		if err != nil {
			return "", "", &usageError{fmt.Errorf("--store-file: %w", err)}
		}
		dsn = strings.TrimSpace(string(data))
	}
	scheme, _, _ := strings.Cut(dsn, "://")
	switch scheme {
	case kindJetStream:
		return dsn, kindJetStream, nil
	case "mysql":
		return dsn, kindMySQL, nil
	case "postgres", "postgresql":
		return dsn, kindPostgres, nil
	}
	return "", "", &usageError{errors.New("--store: want jetstream, mysql://user:password@tcp(host:port)/db or postgres://user:password@host:port/db")}
}

// open opens the store. A database need not answer for that.
func (f storeFlags) open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (segmentStore, error) {
	dsn, kind, err := f.dsn()
	if err != nil {
		return segmentStore{}, err
	}
	if kind == kindJetStream {
		s, err := jetstreamstore.Open(ctx, js, prefix)
		return segmentStore{s, kind, nil}, err
	}
	db, err := f.openDatabase(dsn, kind)
	if err != nil {
		return segmentStore{}, err
	}
	return segmentStore{db, kind + " " + db.Name(), db.Close}, nil
}

func (f storeFlags) openDatabase(dsn, kind string) (database, error) {
	var db database
	var err error
	if kind == kindMySQL {
		db, err = mysql.Open(dsn, f.Table)
	} else {
		db, err = postgres.Open(dsn, f.Table)
	}
	if err != nil {
		return nil, &usageError{fmt.Errorf("--store, --table: %w", err)}
	}
	return db, nil
}

// prepare makes what is missing and finds out whether the store can be counted in. A
// database that is away is no error: service begins when it comes.
func (s segmentStore) prepare(ctx context.Context, migrate bool, log *zap.Logger) error {
	db, ok := s.Store.(database)
	if !ok {
		return nil
	}
	var err error
	if migrate {
		err = db.Migrate(ctx)
	}
	if err == nil {
		err = db.Check(ctx)
	}
	if errors.Is(err, store.ErrSetup) {
		return err
	}
	if err != nil {
		log.Warn("database does not answer, going on without it", zap.Error(err))
	}
	return nil
}
