package backend

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/ledger"
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

// Backend is where segments come from: a parsed DSN. The zero value is of no use.
type Backend struct {
	kind Kind
	name string
	driver
}

// driver is what differs between the kinds.
type driver interface {
	// Create creates the bucket in which a store in JetStream counts, or the ledger of a
	// database.
	Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error
	// Buckets names these buckets.
	Buckets(prefix messages.Prefix) []string
	// Resources are these buckets, for an administrator to make; 0 replicas are as many as there
	// are, or one.
	Resources(prefix messages.Prefix, replicas int) []resource.Resource
	// Rights are those that a role needs for them.
	Rights(prefix messages.Prefix, role rights.Role) rights.Rights

	open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, with Ledger) (*Store, error)
}

// Ledger says how the ledger of a store in a database is used. The zero value requires it, and
// logs nothing.
type Ledger struct {
	Mode ledger.Mode
	Log  *zap.Logger
}

// parsers holds, for each scheme, what parses its DSNs.
var parsers = map[string]func(dsn, table string) (Backend, error){
	"jetstream":  parseJetStream,
	"mysql":      parseMySQL,
	"postgres":   parsePostgres,
	"postgresql": parsePostgres,
}

// Parse reads a DSN: jetstream, mysql://…, or postgres://…. The table is that of a
// database. Errors never contain the DSN.
func Parse(dsn, table string) (Backend, error) {
	scheme, _, _ := strings.Cut(dsn, "://")
	parse, ok := parsers[scheme]
	if !ok {
		return Backend{}, ErrScheme
	}
	return parse(dsn, table)
}

// Kind says which kind of store this is.
func (b Backend) Kind() Kind { return b.kind }

// Name says which store this is, with the database and the table: workers and loaders
// of one installation have to agree on it.
func (b Backend) Name() string { return b.name }

// databaseReservations keep the connections to a database busy, of which there are half as many:
// a reservation takes about as long in the ledger as in the database. With more of them, the time
// that one may take would pass while it waits for a connection.
const databaseReservations = 16

// Reservations is how many reservations a loader should have under way at a time; 0 if the
// store does not mind.
func (b Backend) Reservations() int {
	if b.kind == JetStream {
		return 0
	}
	return databaseReservations
}

// Open opens the store, that of a database with its ledger. A database need not answer for that.
func (b Backend) Open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (*Store, error) {
	return b.OpenWith(ctx, js, prefix, Ledger{})
}

// OpenWith is Open for who decides how the ledger is used.
func (b Backend) OpenWith(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, with Ledger) (*Store, error) {
	return b.open(ctx, js, prefix, with)
}

// Store is an open store. It has to be closed.
type Store struct {
	store.Remembering
	database database      // nil if it counts in JetStream
	ledger   *ledger.Store // the same; of a database
}

// database is what a store in a database can do besides.
type database interface {
	Check(ctx context.Context) error
	CheckFirst(ctx context.Context) error
	Durability(ctx context.Context) error
	Migrate(ctx context.Context) error
	Close() error
}

// Close closes the connections to a database.
func (s *Store) Close() error {
	if s.database != nil {
		return s.database.Close()
	}
	return nil
}

// Check finds out whether a database answers and its table is as it should be. Buckets
// in JetStream were checked when they were opened.
func (s *Store) Check(ctx context.Context) error {
	if s.database != nil {
		return s.database.Check(ctx)
	}
	return nil
}

// CheckFirst finds out whether loaders can make tags for templates: a database's user needs the right
// INSERT for that, and its column has to tell Order from order.
func (s *Store) CheckFirst(ctx context.Context) error {
	if s.database != nil {
		return s.database.CheckFirst(ctx)
	}
	return nil
}

// CheckLedger finds out whether the ledger of a database is there and safe, as far as the
// installation has one yet. The error may be a [*ledger.LostError].
func (s *Store) CheckLedger(ctx context.Context) error {
	if s.ledger != nil {
		return s.ledger.Check(ctx)
	}
	return nil
}

// RestoreLedger makes the bucket of the ledger that is there the one of the installation. It is
// for who has decided from where on to count.
func (s *Store) RestoreLedger(ctx context.Context) error {
	if s.ledger != nil {
		return s.ledger.Restored(ctx)
	}
	return nil
}

// sure is a store that finds out for itself whether a tag that is missing is a new one. A database has its
// ledger for that.
type sure interface {
	CheckSame(ctx context.Context) error
	Accept(ctx context.Context) error
}

// CheckSame finds out whether templates can make tags: the error is a [store.ErrUncertain] if the store was
// lost and made again.
func (s *Store) CheckSame(ctx context.Context) error {
	if own, ok := s.Remembering.(sure); ok {
		return own.CheckSame(ctx)
	}
	return nil
}

// Accept has templates make tags in the store as it is. It is for who has decided from where on to count.
func (s *Store) Accept(ctx context.Context) error {
	if own, ok := s.Remembering.(sure); ok {
		return own.Accept(ctx)
	}
	return nil
}

// RaiseList raises tags, as the store lists them, to what the ledger says was granted of them.
func (s *Store) RaiseList(ctx context.Context, tags []store.Tag) error {
	if s.ledger != nil {
		return s.ledger.RaiseList(ctx, tags)
	}
	return nil
}

// CheckDurability reports the settings of a database with which it can forget in a crash what
// it acknowledged: a [store.UnsafeSettingError] or [store.ErrSettingUnknown] each, joined. Any
// other error means that the database does not answer. JetStream's settings are those of the
// NATS servers.
func (s *Store) CheckDurability(ctx context.Context) error {
	if s.database != nil {
		return s.database.Durability(ctx)
	}
	return nil
}

// Prepare creates the table, if migrate says so and it is missing, and checks it. A
// database that does not answer is logged and is no error: service begins once it does.
func (s *Store) Prepare(ctx context.Context, migrate bool, log *zap.Logger) error {
	var err error
	if s.database != nil && migrate {
		err = s.database.Migrate(ctx)
	}
	if err == nil {
		err = s.Check(ctx)
	}
	if errors.Is(err, store.ErrSetup) {
		return err
	}
	if err != nil {
		log.Warn("database does not answer, going on without it", zap.Error(err))
	}
	return nil
}
