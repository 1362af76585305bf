package ledger_test

import (
	"io"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/store/mysql"
	"github.com/idworker/idworker/store/postgres"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/testing/tier"
)

// handle is a ledger that closes its store, and says that loaders that race burn ranges.
type handle struct {
	*ledger.Store
	io.Closer
}

func (handle) MayBurn() {}

// A store with a ledger is a store.
func TestContract(t *testing.T) {
	tier.All(t) // the contract of the databases themselves is in make test
	for name, c := range map[string]struct {
		database func(testing.TB) *dbtest.DB
		open     func(dsn string) (store.Store, error)
	}{
		"mysql":    {dbtest.MySQL, func(dsn string) (store.Store, error) { return mysql.Open(dsn, "leaf_alloc") }},
		"postgres": {dbtest.Postgres, func(dsn string) (store.Store, error) { return postgres.Open(dsn, "leaf_alloc") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t)
			storetest.Run(t, func(t *testing.T) func() store.Store {
				db := c.database(t)
				create := "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL, step int NOT NULL)"
				if name == "mysql" {
					create += " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
				}
				db.Exec(t, create)
				i := install(t, srv)
				complete := false
				return func() store.Store {
					inner, err := c.open(db.DSN())
					if err != nil {
						t.Fatal(err)
					}
					closer := inner.(io.Closer)
					t.Cleanup(func() { _ = closer.Close() })
					s := i.loader(inner, ledger.Require)
					if !complete {
						fill(t, s)
						complete = true
					}
					return handle{s, closer}
				}
			})
		})
	}
}
