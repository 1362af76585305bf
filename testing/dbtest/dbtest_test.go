package dbtest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idworker/idworker/testing/tier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	for name, find := range map[string]func(testing.TB) *DB{"mysql": MySQL, "postgres": Postgres} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				find(t).Exec(t, "CREATE TABLE t (n INT)", "INSERT INTO t VALUES (1)")
			}
		})
	}
}

func TestServerIsPausedKilledAndRestarted(t *testing.T) {
	tier.All(t)
	for name, start := range map[string]func(testing.TB, ...string) *Instance{"mysql": StartMySQL, "postgres": StartPostgres} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.Exec(t, "CREATE TABLE t (n INT)", "INSERT INTO t VALUES (7)")

			s.Pause()
			answer := make(chan error, 1)
			go func() { answer <- s.SQL().PingContext(t.Context()) }()
			select {
			case err := <-answer:
				t.Errorf("a paused server answered, %v", err)
			case <-time.After(200 * time.Millisecond):
			}
			s.Resume()
			if err := <-answer; err != nil {
				t.Errorf("after resume: %v", err)
			}

			s.Kill()
			if err := s.SQL().PingContext(t.Context()); err == nil {
				t.Error("a killed server answered")
			}
			s.Restart()
			var n int
			if err := s.SQL().QueryRowContext(t.Context(), "SELECT n FROM t").Scan(&n); err != nil || n != 7 {
				t.Errorf("after the restart: %d, %v", n, err)
			}
		})
	}
}
