package backend

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/sql"
)

// Kind is a kind of store.
type Kind string

// The kinds of store.
const (
	JetStream Kind = "jetstream"
	MySQL     Kind = "mysql"
	Postgres  Kind = "postgres"
)

// ErrScheme is the error for a DSN of no known kind.
var ErrScheme = errors.New("expected jetstream, mysql://user:password@tcp(host:port)/db or postgres://user:password@host:port/db")

// Backend says where segments come from: the register in JetStream alone, or a table of a
// database behind it.
type Backend struct {
	kind  Kind
	table *sql.Config // nil if the kind is JetStream; a pointer, as it has the password
}

// Parse reads a DSN: jetstream, mysql://…, or postgres://…. The table is that of a
// database. Errors never contain the DSN.
func Parse(dsn, table string) (Backend, error) {
	switch scheme, _, _ := strings.Cut(dsn, "://"); scheme {
	case string(JetStream):
		return Backend{kind: JetStream}, nil
	case "mysql", "postgres", "postgresql":
		config, err := sql.Parse(dsn, table)
		if err != nil {
			return Backend{}, err
		}
		return Backend{Kind(config.Kind()), &config}, nil
	}
	return Backend{}, ErrScheme
}

// login finds a password in a DSN: before the last @, behind a colon; or in the settings. A text that only
// looks like one counts.
var login = regexp.MustCompile(`(?s)^[^:]*://[^:]*:.+@|password=`)

// HasPassword reports whether a DSN holds a password, or may do so.
func HasPassword(dsn string) bool { return login.MatchString(dsn) }

// Kind returns which kind of store this is.
func (b Backend) Kind() Kind { return b.kind }

// Name names the store, with the database and the table: the loaders of one installation
// have to agree on it.
func (b Backend) Name() string {
	if b.kind == JetStream {
		return string(JetStream)
	}
	return string(b.kind) + " " + b.table.Name()
}

// Reservations is how many reservations a loader should have in flight at a time; 0 if the
// store does not mind.
func (b Backend) Reservations() int {
	if b.kind == JetStream {
		return 0
	}
	return sql.Reservations
}

// Beside are the buckets that a witness watches beside the register.
func Beside(prefix messages.Prefix) []string { return []string{lease.ClockBucketName(prefix)} }

// Open opens the store. The register has to exist; a database need not answer. The table
// and the buckets beside the register are set here.
func (b Backend) Open(ctx context.Context, c register.Config) (*Store, error) {
	return b.open(c, func(c register.Config) (*register.Store, error) { return register.Open(ctx, c) })
}

// Decide opens the store for [register.Store.RaiseAll]: its register may have gone back, or
// is created if it is missing.
func (b Backend) Decide(ctx context.Context, c register.Config, replicas int) (*Store, error) {
	return b.open(c, func(c register.Config) (*register.Store, error) { return register.Decide(ctx, c, replicas) })
}

func (b Backend) open(config register.Config, open func(register.Config) (*register.Store, error)) (*Store, error) {
	config.Beside = Beside(config.Prefix)
	var database store.Database
	if b.kind != JetStream {
		table, err := b.table.Open()
		if err != nil {
			return nil, err
		}
		database = table
		config.Table, config.TableName = table, b.table.Server()+" "+b.table.Name()
	}
	s, err := open(config)
	if err != nil {
		if database != nil {
			err = errors.Join(err, database.Close())
		}
		return nil, err
	}
	return &Store{s, database}, nil
}

// Store is an open store. It has to be closed.
type Store struct {
	*register.Store
	Database store.Database // nil if there is none
}

// Close closes the store, and the connections to a database.
func (s *Store) Close() error {
	err := s.Store.Close()
	if s.Database != nil {
		err = errors.Join(err, s.Database.Close())
	}
	return err
}

// CheckFirst reports whether loaders can make tags of any name for templates.
func (s *Store) CheckFirst(ctx context.Context) error {
	if s.Database == nil {
		return nil
	}
	return s.Database.CheckFirst(ctx)
}

// Prepare creates the table, if migrate is set and it is missing, and checks it. A database
// that does not answer is logged and is no error: service begins once it does.
func (s *Store) Prepare(ctx context.Context, migrate bool, log *zap.Logger) error {
	if s.Database == nil {
		return nil
	}
	var err error
	if migrate {
		err = s.Database.Migrate(ctx)
	}
	if err == nil {
		err = s.Database.Check(ctx)
	}
	if errors.Is(err, store.ErrSetup) {
		return err
	}
	if err != nil {
		log.Warn("database does not answer yet", zap.Error(err))
	}
	return nil
}
