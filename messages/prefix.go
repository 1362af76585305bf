package messages

import (
	"errors"
	"fmt"
	"strings"
)

// Prefix is the first token of every subject of an installation, and part of the
// name of its streams and buckets, so that several installations can share one
// NATS account. It is also the workers' queue group.
type Prefix string

// DefaultPrefix is the prefix that callers and workers use unless told otherwise.
const DefaultPrefix Prefix = "ids"

// maxPrefixLen keeps subjects short; the number itself has no deeper meaning.
const maxPrefixLen = 32

// ErrPrefix is wrapped by the error of [Prefix.Check].
var ErrPrefix = errors.New("bad prefix")

// Check reports whether the prefix can name subjects, streams and buckets: one
// token of a–z 0–9 _ -, at most 32 bytes. Upper case is refused because streams have
// upper-case names: two prefixes that differ in case only would share them.
func (p Prefix) Check() error {
	if p == "" || len(p) > maxPrefixLen {
		return fmt.Errorf("%w: %d bytes, allowed is 1 to %d", ErrPrefix, len(p), maxPrefixLen)
	}
	for i := range len(p) {
		if c := p[i]; !tagByte[c] || 'A' <= c && c <= 'Z' {
			return fmt.Errorf("%w: %q has %q at byte %d, allowed are a-z 0-9 _ -", ErrPrefix, string(p), c, i)
		}
	}
	return nil
}

// The subjects that callers use.

// Segment is the subject of requests for IDs of a tag.
func (p Prefix) Segment(tag string) string { return string(p) + ".segment." + tag }

// Snowflake is the subject of requests for snowflake IDs.
func (p Prefix) Snowflake() string { return string(p) + ".snowflake" }

// QueueGroup is the queue group in which workers answer.
func (p Prefix) QueueGroup() string { return string(p) }

// The subjects between workers and loaders.

// Load is the subject of a worker's load events for a tag. The load stream keeps
// one message per subject, hence one load at a time per worker and tag.
func (p Prefix) Load(instance, tag string) string {
	return string(p) + ".load." + instance + "." + tag
}

// Reserve is the subject on which loaders take load events by plain message,
// while the load stream is away.
func (p Prefix) Reserve() string { return string(p) + ".reserve" }

// Grant is the subject on which one worker process gets its segments.
func (p Prefix) Grant(instance string) string { return string(p) + ".grant." + instance }

// Turn is the subject on which enrichers of one enrichment ask for the next turn.
func (p Prefix) Turn(enrichment string) string { return string(p) + ".enrich." + enrichment }

// The JetStream resources.

// LoadStream is the work-queue stream of load events.
func (p Prefix) LoadStream() string { return strings.ToUpper(string(p)) + "_LOAD" }

// TagsBucket is the KV bucket with the configuration of every tag.
func (p Prefix) TagsBucket() string { return string(p) + "_tags" }

// SegmentsBucket is the KV bucket in which store/jetstream counts.
func (p Prefix) SegmentsBucket() string { return string(p) + "_segments" }

// WorkersBucket is the KV bucket in which worker IDs of snowflake IDs are leased.
func (p Prefix) WorkersBucket() string { return string(p) + "_workers" }

// ClockBucket is the KV bucket that says up to when each worker ID's time has been
// given away.
func (p Prefix) ClockBucket() string { return string(p) + "_clock" }

// ConfigBucket is the KV bucket with what all processes of an installation have to
// agree on.
func (p Prefix) ConfigBucket() string { return string(p) + "_config" }

// EnrichBucket is the KV bucket that says how far each enrichment is.
func (p Prefix) EnrichBucket() string { return string(p) + "_enrich" }
