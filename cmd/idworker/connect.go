package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
)

// installation says which idworker installation on which server a command talks to.
type installation struct {
	Server string          `help:"URL of the NATS server." placeholder:"URL" env:"IDWORKER_SERVER,NATS_URL"`
	Prefix messages.Prefix `help:"First token of all subjects and names." default:"ids"`

	InboxPrefix string `help:"Prefix of the subjects on which answers come; one of its own for every NATS user." placeholder:"_INBOX_name"`
}

// inbox is the connection option for the inbox prefix.
func (i installation) inbox() nats.Option {
	if i.InboxPrefix == "" {
		return func(*nats.Options) error { return nil }
	}
	return nats.CustomInboxPrefix(i.InboxPrefix)
}

// connect connects a command that asks one thing and ends.
func (i installation) connect() (*nats.Conn, error) {
	if err := i.Prefix.Check(); err != nil {
		return nil, err
	}
	url := i.Server
	if url == "" {
		url = nats.DefaultURL
	}
	conn, err := nats.Connect(url, nats.Name("idworker"), i.inbox())
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w; start one with idworker serve, or name yours with --server", url, err)
	}
	return conn, nil
}

// commandTimeout bounds a command that asks JetStream something.
const commandTimeout = 30 * time.Second

// withJetStream connects, and runs use.
func (i installation) withJetStream(ctx context.Context, use func(context.Context, jetstream.JetStream) error) error {
	conn, err := i.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	ctx, explain := whenRefused(ctx, conn)
	return explain(use(ctx, js))
}

// stayConnected are the options of a process that serves: it never gives up.
func stayConnected(name string, log *zap.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.PingInterval(5 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost, reconnecting", zap.String("connection", name), zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			log.Info("NATS connection is back", zap.String("connection", name), zap.String("url", c.ConnectedUrlRedacted()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Error("NATS reports an error", zap.String("connection", name), zap.String("subject", subject), zap.Error(err))
		}),
	}
}
