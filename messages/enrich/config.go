package enrich

import (
	"cmp"
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/messages"
)

// Existing is the treatment of events that already carry an ID.
type Existing string

// The treatments.
const (
	// They keep the ID that they have.
	Keep   Existing = "keep"
	Refuse Existing = "refuse" // they become dead letters
)

// OnLoss is the reaction to events that the source removed before they were
// enriched.
type OnLoss string

// The reactions. The loss is logged and counted in any case.
const (
	GoOn OnLoss = "go-on" // the others are enriched
	// The enrichment stops until an operator decides, with [Resume].
	Stop OnLoss = "stop"
)

// IDs is the source of IDs, such as a *[messages.Client].
type IDs interface {
	NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error)
	SnowflakeN(ctx context.Context, n int64) ([]messages.Range, error)
}

// Config selects the events to enrich, and the IDs they get. Conn, JetStream,
// IDs, From, To and ID must be set.
type Config struct {
	Conn      *nats.Conn
	JetStream jetstream.JetStream // on Conn
	IDs       IDs
	Prefix    messages.Prefix // of the installation; empty means "ids"

	From   string // name of the source stream
	Filter string // some of its subjects; empty means all

	// To is the destination of stamped events: a subject, or a pattern whose
	// wildcards stand for the matches of those of Filter, the first for the
	// first, and so on.
	To string

	// ID selects the IDs: "snowflake", or "segment:" and a tag, in which
	// {{wildcard(n)}} stands for the token that the nth * of Filter matched.
	ID string

	// JSON is the path, keys joined by dots, at which the ID is also put into
	// the event's JSON object: as a string, or as a number with JSONNumber.
	// Empty means that the ID is in the header only.
	JSON       string
	JSONNumber bool

	Existing   Existing // empty means Keep
	DeadLetter string   // subject for events that cannot be stamped; may be empty

	OnLoss OnLoss // empty means GoOn

	// Installation is the ID of the installation whose workers issue the IDs,
	// if available. Records of another installation are refused: its workers
	// may have issued the same IDs. If it is empty, nothing is compared.
	Installation string

	// Explain returns the text of an error for the log, with its remedy; nil
	// means error.Error.
	Explain func(error) string

	// Replicas is for the bucket of records if it does not exist yet: 1 to 5,
	// odd; 0 means 1.
	Replicas int

	Log *zap.Logger // nil means none

	timers timers // zero means defaultTimers
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, messages.DefaultPrefix)
	c.Existing = cmp.Or(c.Existing, Keep)
	c.OnLoss = cmp.Or(c.OnLoss, GoOn)
	c.Filter = cmp.Or(c.Filter, ">")
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.timers = cmp.Or(c.timers, defaultTimers)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Explain == nil {
		c.Explain = error.Error
	}
	return c
}

// Check returns an error with the fault and the allowed values if the settings
// alone are invalid. It wraps [ErrConfig] or messages.ErrPrefix. [Open] checks
// the settings against the streams.
func (c Config) Check() error {
	c = c.withDefaults()
	if _, err := newMapping(c.Filter, c.To); err != nil {
		return err
	}
	if _, err := parseIDKind(c.ID, c.Filter); err != nil {
		return err
	}
	switch {
	case c.From == "" || strings.ContainsAny(c.From, " .*>/\\\t\r\n"):
		return configError("source stream %q, want the name of a stream", c.From)
	case c.Existing != Keep && c.Existing != Refuse:
		return configError("existing IDs %q, allowed are keep, refuse", c.Existing)
	case c.OnLoss != GoOn && c.OnLoss != Stop:
		return configError("on loss %q, allowed are go-on, stop", c.OnLoss)
	case c.DeadLetter != "" && !subject.IsLiteral(c.DeadLetter):
		return configError("dead-letter subject %q, want one subject without wildcards", c.DeadLetter)
	case c.JSON == "" && c.JSONNumber:
		return configError("IDs as JSON numbers without a JSON path")
	}
	if err := checkJSONPath(c.JSON); err != nil {
		return err
	}
	return c.Prefix.Check()
}
