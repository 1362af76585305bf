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
	"github.com/idworker/idworker/internal/rights"
)

// maxPingsOut is the number of pings that the server may leave unanswered, for
// half a minute. In an overload, replies queue behind requests, and closing the
// connection would lose all of them. A frozen server is given up much sooner,
// see frozenTicks.
const maxPingsOut = 60

// Stay returns the options of a process that serves. It reconnects forever,
// even if the server refuses its login for a while.
func Stay(name string, own Own, log *zap.Logger) []nats.Option {
	sampled := func(every time.Duration) *zap.Logger {
		return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(c, every, 1, 0)
		}))
	}
	onceASecond, onceAMinute := sampled(time.Second), sampled(time.Minute)
	dialer := &watchedDialer{name: name, log: log}
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(250 * time.Millisecond),
		// With TLS, the default is up to a second.
		nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
		nats.PingInterval(silenceTick),
		nats.MaxPingsOutstanding(maxPingsOut),
		nats.SetCustomDialer(dialer),
		nats.ConnectHandler(dialer.countServers),
		nats.DiscoveredServersHandler(dialer.countServers),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost, reconnecting", zap.String("connection", name), zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			dialer.countServers(c)
			log.Info("NATS connection restored", zap.String("connection", name), zap.String("url", Redact(c.ConnectedUrl())))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			switch v, ok := rights.ViolationOf(err); {
			case ok && isClaim(v):
				onceAMinute.Info("claims to loaders denied; they ask instead", zap.String("connection", name),
					zap.String("subject", v.Subject), zap.String("hint", "give it the new right of nats.conf, see docs/upgrades.md"))
				return
			case ok && !own(v):
				onceAMinute.Warn("reply to a caller denied", zap.String("connection", name),
					zap.String("inbox", v.Subject), zap.String("hint", "its requests time out; set its inbox prefix to that of its user, see docs/security.md"))
				return
			}
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			onceASecond.Error("NATS error", zap.String("connection", name), zap.String("subject", subject), zap.Error(err))
		}),
	}
}

// The pause between attempts to connect; it doubles.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 2 * time.Second
)

// Await calls connect until a server answers, even if only to refuse the login.
// It logs once that it waits, and once that a server answers. It ends with ctx,
// which connect cannot: nats.go looks up a name, or dials, to the end.
func Await(ctx context.Context, log *zap.Logger, connect func() error) error {
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		answer := make(chan error, 1)
		go func() { answer <- connect() }()
		var err error
		select {
		case err = <-answer:
		case <-ctx.Done():
			return ctx.Err()
		}
		waited := wait > firstPause
		switch {
		case err == nil && waited:
			log.Info("connected to NATS")
			return nil
		case !IsAway(err):
			return err
		case !waited:
			log.Warn("waiting for a NATS server", zap.Error(err))
		}
		pause.For(ctx, wait)
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// IsAway reports whether an error of connecting means that no server answered.
// A host name that does not resolve may do so later: in Kubernetes, the name of
// a server that is not ready is unknown. The errors of a server or its
// certificate do not count, because waiting does not help.
func IsAway(err error) bool {
	// A server's alert about our certificate is a net.OpError too.
	var alert tls.AlertError
	if errors.As(err, &alert) {
		return false
	}
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &network) || errors.As(err, &name) ||
		errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
