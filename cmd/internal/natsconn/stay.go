package natsconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/internal/pause"
)

// maxPingsOut is how many pings the server may leave unanswered, for half a minute. In an
// overload the answers queue behind requests; to give up the connection then would lose all
// of those, and help nobody. A server that is frozen is given up much sooner, see
// frozenTicks.
const maxPingsOut = 60

// Stay is the options of a process that serves: it never gives up, even if the server
// refuses its login for a while.
func Stay(name string, log *zap.Logger) []nats.Option {
	onceASecond := log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, 1, 0)
	}))
	dialer := &watchedDialer{name: name, log: log}
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond), // by default up to a second with TLS
		nats.PingInterval(silenceTick),
		nats.MaxPingsOutstanding(maxPingsOut),
		nats.SetCustomDialer(dialer),
		nats.ConnectHandler(dialer.learn),
		nats.DiscoveredServersHandler(dialer.learn),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost, reconnecting", zap.String("connection", name), zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			dialer.learn(c)
			log.Info("NATS connection is back", zap.String("connection", name), zap.String("url", Redact(c.ConnectedUrl())))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			// A caller with a bad inbox causes one for each request.
			onceASecond.Error("NATS reports an error", zap.String("connection", name), zap.String("subject", subject), zap.Error(err))
		}),
	}
}

// The pause between two attempts to connect: it doubles.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 2 * time.Second
)

// Await calls a function that connects until it gets an answer from a server, be it that the
// login is refused. It logs once that no server answers, and that one does then.
func Await(ctx context.Context, log *zap.Logger, connect func() error) error {
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := connect()
		waited := wait > firstPause
		switch {
		case err == nil && waited:
			log.Info("the NATS server is there")
			return nil
		case !IsAway(err):
			return err
		case !waited:
			log.Warn("no NATS server answers yet, waiting for one", zap.Error(err))
		}
		pause.For(ctx, wait)
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// IsAway reports whether an error of connecting says that no server answered. A host name
// that does not resolve may do so later: where names follow processes, as in Kubernetes, that
// of a server that is not ready yet is unknown. What a server or its certificate says is
// another matter: that does not get better by waiting.
func IsAway(err error) bool {
	var alert tls.AlertError // what the server has against our certificate is a net.OpError too
	if errors.As(err, &alert) {
		return false
	}
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &network) || errors.As(err, &name) ||
		errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
