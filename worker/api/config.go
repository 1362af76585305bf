package api

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/snowflake"
)

// Source is where IDs come from; it is a worker's Direct. A reply is what one by NATS has in its body, and
// an error is a [*messages.Error], or that of ctx, when that ended first.
type Source interface {
	Segment(ctx context.Context, tag string, count []byte, kept bool) (reply []byte, err error)
	Snowflake(ctx context.Context, count []byte) (reply []byte, err error)
}

// Config says where a server listens, and who may ask it. Address must be set.
type Config struct {
	// Address is HOST:PORT.
	Address string

	// Certificate and Key are files in PEM, both or none. With them the server speaks TLS only.
	Certificate, Key string

	// Tokens is a file that says which token may ask for what; see [ParseTokens]. Without it everybody
	// may ask for everything.
	Tokens string

	// Exposed lets a server listen where other machines can reach it even if it has no certificate or
	// no tokens.
	Exposed bool

	// Hosts are names that a request's Host header may have without tokens, besides localhost,
	// this machine's name and IP addresses. With Exposed it may have any.
	Hosts []string

	// Connections is how many there may be, 1 to 100,000. The default is DefaultConnections.
	Connections int

	// Wait is how long the source takes at most. The default is 2 s.
	Wait time.Duration

	// Layout is that of snowflake IDs, for taking them apart.
	Layout snowflake.Layout

	Log *zap.Logger

	// What tests have otherwise; by default the constants of these names.
	clientTimeout, restTimeout, refreshEvery time.Duration
}

// DefaultConnections is how many connections there may be. Each takes some 20 kB.
const DefaultConnections = 4096

const (
	mostConnections = 100_000
	defaultWait     = 2 * time.Second
)

// ErrConfig is wrapped by the errors about a configuration that cannot work.
var ErrConfig = problem.New(problem.Invalid, "bad configuration of HTTP for callers")

func (c Config) withDefaults() Config {
	c.Connections = cmp.Or(c.Connections, DefaultConnections)
	c.Wait = cmp.Or(c.Wait, defaultWait)
	c.Layout = cmp.Or(c.Layout, snowflake.Default())
	c.clientTimeout = cmp.Or(c.clientTimeout, clientTimeout)
	c.restTimeout = cmp.Or(c.restTimeout, restTimeout)
	c.refreshEvery = cmp.Or(c.refreshEvery, refreshEvery)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

func (c Config) check() error {
	switch {
	case (c.Certificate == "") != (c.Key == ""):
		return fmt.Errorf("%w: a certificate and a key belong together, and one of them is missing", ErrConfig)
	case c.Connections < 1 || c.Connections > mostConnections:
		return fmt.Errorf("%w: %d connections, allowed is 1 to %d", ErrConfig, c.Connections, mostConnections)
	}
	return nil
}

// ExposedError says that a server would be reached by others and lacks what keeps them off.
type ExposedError struct {
	Address string
	Plain   bool // no TLS: what is sent can be read on the way
	Open    bool // no tokens: whoever reaches it gets IDs
}

// Unwrap makes it an ErrConfig.
func (e *ExposedError) Unwrap() error { return ErrConfig }

// Problem is part of [problem.Problem].
func (e *ExposedError) Problem() (problem.Kind, []any) { return problem.Exposed, nil }

// Error names what is missing.
func (e *ExposedError) Error() string {
	text := "other machines can reach " + e.Address
	if e.Plain {
		text += "; without TLS, what is sent can be read on the way"
	}
	if e.Open {
		text += "; without tokens, everybody gets IDs"
	}
	return text
}
