package dbtest

import (
	"testing"

	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/testing/tier"
)

func count(t *testing.T, d *DB) (n int) {
	t.Helper()
	if err := d.SQL().QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Commits that the replica did not get are lost when it is promoted, each time.
func TestPromotedReplicaLacksWhatWasCut(t *testing.T) {
	tier.All(t)
	for name, start := range map[string]func(testing.TB) *Pair{"mariadb": StartMariaDBPair, "postgres": StartPostgresPair} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			proxy := proxy.Start(t, p.Addr())
			p.Exec(t, "CREATE TABLE t (n INT)")
			for round := range 3 {
				p.Exec(t, "INSERT INTO t VALUES (1)")
				p.Follow()
				if n := count(t, p.Replica()); n != round+1 {
					t.Fatalf("round %d: the replica has %d rows", round, n)
				}
				p.Cut()
				p.Exec(t, "INSERT INTO t VALUES (2), (3)")
				p.FailOver()
				proxy.Switch(p.Addr())
				through := p.brand.open(t, p.DSNVia(proxy))
				var n int
				if err := through.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil || n != round+1 {
					t.Errorf("round %d: after the failover %d rows, %v", round, n, err)
				}
			}
		})
	}
}
