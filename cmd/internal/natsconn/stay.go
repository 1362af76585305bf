package natsconn

import (
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// maxPingsOut is how many pings the server may leave unanswered, for half a minute. In an
// overload the answers queue behind requests; to give up the connection then would lose all
// of those, and help nobody. A server that is frozen is given up much sooner, see
// frozenTicks.
const maxPingsOut = 60

// Stay is the options of a process that serves: it never gives up, even if the server
// refuses its login for a while.
func Stay(name string, log *zap.Logger) []nats.Option {
	gate := &floodgate{}
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
			if suppressed, ok := gate.pass(); ok { // a caller with a bad inbox causes one for each request
				log.Error("NATS reports an error", zap.String("connection", name), zap.String("subject", subject), zap.Error(err), zap.Int64("others", suppressed))
			}
		}),
	}
}
