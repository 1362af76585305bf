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

	"github.com/idworker/idworker/internal/pause"
)

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
