package durability_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/testing/natstest"
)

// exported is a server configuration in which an account may request the
// servers' settings.
const exported = `
	system_account: SYS
	accounts {
		SYS { exports: [{ service: "$SYS.REQ.SERVER.PING.JSZ", response_type: Stream }] }
		APP { jetstream: enabled, users: [{ user: a, password: a }], imports: [{ service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ" } }] }
	}`

// The check finds the servers' setting, and its absence.
func TestCheckServers(t *testing.T) {
	for _, c := range []struct {
		name, conf string
		always     bool
		want       error
	}{
		{"always", exported, true, nil},
		{"not always", exported, false, durability.ErrNoSync},
		{"says nothing", "", true, durability.ErrSyncUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "nats.conf")
			if err := os.WriteFile(file, []byte(c.conf), 0o600); err != nil {
				t.Fatal(err)
			}
			conf, err := server.ProcessConfigFile(file)
			if err != nil {
				t.Fatal(err)
			}
			srv := natstest.Start(t, func(o *server.Options) {
				o.Accounts, o.Users, o.SystemAccount, o.SyncAlways = conf.Accounts, conf.Users, conf.SystemAccount, c.always
			})
			var login []nats.Option
			if c.conf != "" {
				login = append(login, nats.UserInfo("a", "a"))
			}
			conn := srv.Connect(t, login...)
			natstest.Eventually(t, fmt.Sprintf("the error %v", c.want), func() bool {
				err := durability.CheckServers(t.Context(), conn)
				if !errors.Is(err, c.want) && !errors.Is(err, durability.ErrSyncUnknown) { // a slow server
					t.Fatalf("%v, want %v", err, c.want)
				}
				return errors.Is(err, c.want)
			})
		})
	}
}

// Each server answers for itself, so the first answer is not enough.
func TestCheckReadsAllAnswers(t *testing.T) {
	conn := natstest.Start(t).Connect(t)
	for _, c := range []struct {
		always []bool
		want   error
	}{{[]bool{true, true, true}, nil}, {[]bool{true, true, false}, durability.ErrNoSync}} {
		servers, err := conn.Subscribe(durability.AskServers, func(msg *nats.Msg) {
			for _, always := range c.always {
				_ = msg.Respond(fmt.Appendf(nil, `{"data":{"config":{"sync_always":%v}}}`, always))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		// Answers that come late are not read.
		natstest.Eventually(t, fmt.Sprintf("%v: the error %v", c.always, c.want), func() bool {
			return errors.Is(durability.CheckServers(t.Context(), conn), c.want)
		})
		_ = servers.Unsubscribe()
	}
}
