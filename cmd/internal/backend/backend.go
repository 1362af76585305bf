package backend

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/sql"
)

// StoreKind is a kind of store.
type StoreKind string

// Kinds of store.
const (
	JetStream StoreKind = "jetstream"
	MySQL     StoreKind = "mysql"
	Postgres  StoreKind = "postgres"
)

// ErrScheme is the error for a DSN of an unknown kind.
var ErrScheme = errors.New("expected jetstream, mysql://user:password@tcp(host:port)/db or postgres://user:password@host:port/db")

// Backend is the configuration of a store: the register in JetStream, alone or
// in front of a table in a database.
type Backend struct {
	kind StoreKind
	// A pointer, because it contains the password; nil for JetStream.
	table *sql.Config
}

// Parse parses a DSN: jetstream, mysql://…, or postgres://…. The table is in
// that database. Errors never contain the DSN.
func Parse(dsn, table string) (Backend, error) {
	if dsn == string(JetStream) {
		return Backend{kind: JetStream}, nil
	}
	switch scheme, _, _ := strings.Cut(dsn, "://"); scheme {
	case "mysql", "postgres", "postgresql":
		config, err := sql.Parse(dsn, table)
		if err != nil {
			return Backend{}, err
		}
		return Backend{StoreKind(config.Kind()), &config}, nil
	}
	return Backend{}, ErrScheme
}

// ParseFile is Parse for a DSN in a file, which is reread for each connection to
// the database. The DSN of another database is refused then: it would be
// another store.
func ParseFile(files *secretfile.Set, path, table string) (Backend, error) {
	var first Backend
	file, err := secretfile.Open(files, "store", func(contents [][]byte) (Backend, error) {
		b, err := Parse(strings.TrimSpace(string(contents[0])), table)
		switch {
		case err != nil:
		case first == Backend{}:
			first = b
		case b.Name() != first.Name():
			err = fmt.Errorf("another store, %s instead of %s; restart to use it", b.Name(), first.Name())
		}
		return b, err
	}, path)
	if err != nil {
		return Backend{}, err
	}
	b := file.Last()
	if b.table != nil {
		table := b.table.Follow(func() sql.Config { return *file.Read().table })
		b.table = &table
	}
	return b, nil
}

// login matches a password in a DSN: before the last @ and after a colon, or in
// the settings. Text that only looks like a password matches too.
var login = regexp.MustCompile(`(?s)^[^:]*://[^:]*:.+@|password=`)

// HasPassword reports whether a DSN may contain a password.
func HasPassword(dsn string) bool { return login.MatchString(dsn) }

// Kind returns the kind of store.
func (b Backend) Kind() StoreKind { return b.kind }

// Name returns the store's name, with the database and the table. All loaders
// of an installation must have the same.
func (b Backend) Name() string {
	if b.kind == JetStream {
		return string(JetStream)
	}
	return string(b.kind) + " " + b.table.Name()
}

// Reservations is the number of reservations that a loader should have in
// flight at a time, or 0 for any.
func (b Backend) Reservations() int {
	if b.kind == JetStream {
		return 0
	}
	return sql.Reservations
}

// Beside returns the buckets that a witness covers in addition to the register.
func Beside(prefix messages.Prefix) []string {
	return []string{lease.ClockBucketName(prefix), agreement.BucketName(prefix)}
}

// Open opens the store. The register must exist; a database may be unreachable.
// Open sets the table of c, and its buckets beside the register.
func (b Backend) Open(ctx context.Context, c register.Config) (*Segments, error) {
	return b.open(c, func(c register.Config) (*register.Register, error) { return register.Open(ctx, c) })
}

// OpenToRaise opens the store for a raise, see [register.OpenToRaise].
func (b Backend) OpenToRaise(ctx context.Context, c register.Config, replicas int, first uint64, alone bool) (*Segments, error) {
	return b.open(c, func(c register.Config) (*register.Register, error) {
		return register.OpenToRaise(ctx, c, replicas, first, alone)
	})
}

// Survey opens the store for a look at what a raise or an import would do, see
// [register.Survey].
func (b Backend) Survey(ctx context.Context, c register.Config) (*Segments, error) {
	return b.open(c, func(c register.Config) (*register.Register, error) { return register.Survey(ctx, c) })
}

func (b Backend) open(config register.Config, open func(register.Config) (*register.Register, error)) (*Segments, error) {
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
	return &Segments{s, database}, nil
}

// Segments is an open store. Close it.
type Segments struct {
	*register.Register
	Database store.Database // may be nil
}

// Close closes the store and the connections to a database.
func (s *Segments) Close() error {
	err := s.Register.Close()
	if s.Database != nil {
		err = errors.Join(err, s.Database.Close())
	}
	return err
}

// CheckFirst returns an error if templates cannot create tags of any name.
func (s *Segments) CheckFirst(ctx context.Context) error {
	if s.Database == nil {
		return nil
	}
	return s.Database.CheckFirst(ctx)
}

// Prepare checks the table; with migrate it first creates a missing one. It
// logs an unreachable database without an error: service begins once it
// answers.
func (s *Segments) Prepare(ctx context.Context, migrate bool, log *zap.Logger) error {
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
