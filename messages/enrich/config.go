package enrich

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
)

// ErrConfig is wrapped by the errors of an enrichment that cannot work as asked for.
var ErrConfig = errors.New("bad enrichment")

// Existing says what becomes of an event that carries an ID already.
type Existing string

// What can be done with them.
const (
	Keep   Existing = "keep"   // passed on with the ID it has
	Refuse Existing = "refuse" // sent to the dead-letter subject
)

// IDs is where IDs come from; *[messages.Client] is one.
type IDs interface {
	NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error)
	SnowflakeN(ctx context.Context, n int64) ([]messages.Range, error)
}

// Config says what is enriched, and how. Conn, JetStream, IDs, From, To and ID must
// be set.
type Config struct {
	Conn      *nats.Conn
	JetStream jetstream.JetStream // on Conn
	IDs       IDs
	Prefix    messages.Prefix

	From   string // name of the source stream
	Filter string // which of its subjects; empty means all

	// To is where stamped events go: a subject, or a pattern whose wildcards stand for
	// what those of Filter matched, the first for the first.
	To string

	// ID says which IDs: "snowflake", or "segment:" and a tag, in which {{wildcard(n)}}
	// stands for the token that the nth * of Filter matched.
	ID string

	// JSON is the path, keys joined by dots, at which the ID is put into the event's
	// JSON object too, as a string unless JSONNumber. Empty means: in the header only.
	JSON       string
	JSONNumber bool

	Existing   Existing
	DeadLetter string // subject for events that cannot be stamped; may be empty

	// Replicas is for the bucket of records if it does not exist yet, 1 to 5.
	Replicas int

	Log *zap.Logger
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, messages.DefaultPrefix)
	c.Existing = cmp.Or(c.Existing, Keep)
	c.Filter = cmp.Or(c.Filter, ">")
	c.Replicas = cmp.Or(c.Replicas, 1)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Check says what is wrong with the settings by themselves, and what is allowed.
// Whether they fit the streams, [Open] finds out.
func (c Config) Check() error {
	c = c.withDefaults()
	if _, err := newMapping(c.Filter, c.To); err != nil {
		return err
	}
	if _, err := parseID(c.ID, c.Filter); err != nil {
		return err
	}
	switch {
	case c.From == "" || strings.ContainsAny(c.From, " .*>/\\\t\r\n"):
		return bad("source stream %q, want the name of a stream", c.From)
	case c.Existing != Keep && c.Existing != Refuse:
		return bad("existing IDs %q, allowed are keep, refuse", c.Existing)
	case c.DeadLetter != "" && !literal(c.DeadLetter):
		return bad("dead-letter subject %q, want one subject without wildcards", c.DeadLetter)
	case c.JSON == "" && c.JSONNumber:
		return bad("IDs as JSON numbers, but no JSON path")
	}
	if err := checkPath(c.JSON); err != nil {
		return err
	}
	return c.Prefix.Check()
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
}
