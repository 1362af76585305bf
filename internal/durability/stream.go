package durability

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/problem"
)

// ErrUnsafe is wrapped by every [UnsafeError].
var ErrUnsafe = errors.New("unsafe")

// Setting is a setting of a stream with which the server itself loses or
// replaces messages, by its name in the server's API.
type Setting string

// The settings that [CheckStream] checks.
const (
	Storage    Setting = "storage"
	Persist    Setting = "persist_mode"
	Mirror     Setting = "mirror"
	Sources    Setting = "sources"
	Transform  Setting = "subject_transform"
	Retention  Setting = "retention"
	MaxAge     Setting = "max_age"
	MessageTTL Setting = "allow_msg_ttl"
	Discard    Setting = "discard"
	NoAck      Setting = "no_ack"

	// NoExpiry is a max_age of 0 where entries must expire.
	NoExpiry Setting = "max_age of 0"
)

// UnsafeError names the setting with which a stream loses entries, and the
// reason.
type UnsafeError struct {
	Stream  string // its name; for a bucket, KV_ and the bucket's name
	Setting Setting
	Reason  string // the consequence
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("stream %s is %v: %s: %s", e.Stream, ErrUnsafe, e.Setting, e.Reason)
}

// Unwrap makes it an [ErrUnsafe].
func (e *UnsafeError) Unwrap() error { return ErrUnsafe }

// Problem is part of [problem.Problem].
func (e *UnsafeError) Problem() (problem.Kind, []any) {
	switch e.Setting {
	case NoExpiry:
		return problem.ExpiryMissing, nil
	case MaxAge:
		return problem.EntriesExpire, []any{e.Stream}
	case Discard:
		return problem.Discards, []any{e.Stream}
	}
	return problem.MayForget, nil
}

// CheckStream refuses every setting with which the server itself loses or
// replaces entries. It is for streams beneath buckets whose entries must last,
// not for buckets whose entries expire on purpose, such as leases.
//
// The check cannot see later changes, data that was restored from a backup, or
// whether the server syncs to disk, see [CheckServers]. The error is an
// [*UnsafeError] or nil.
func CheckStream(c jetstream.StreamConfig) error {
	unsafe := func(setting Setting, reason string) error { return &UnsafeError{c.Name, setting, reason} }
	switch {
	case c.Storage != jetstream.FileStorage:
		return unsafe(Storage, "memory storage is lost when the server stops")
	case c.PersistMode == jetstream.AsyncPersistMode:
		return unsafe(Persist, "writes are acknowledged before they are on disk")
	case c.Mirror != nil:
		return unsafe(Mirror, "another stream overwrites its entries")
	case len(c.Sources) > 0:
		return unsafe(Sources, "other streams overwrite its entries")
	case c.SubjectTransform != nil:
		return unsafe(Transform, "entries are stored under another key")
	case c.Retention != jetstream.LimitsPolicy:
		return unsafe(Retention, fmt.Sprintf("with %s, entries are removed once read", c.Retention))
	case c.MaxAge != 0:
		return unsafe(MaxAge, fmt.Sprintf("entries expire after %v", c.MaxAge))
	case c.AllowMsgTTL:
		return unsafe(MessageTTL, "writers can make single entries expire")
	case c.Discard != jetstream.DiscardNew && (c.MaxMsgs > 0 || c.MaxBytes > 0):
		return unsafe(Discard, "a full stream removes its oldest entries")
	case c.NoAck:
		return unsafe(NoAck, "writes are not acknowledged")
	}
	return nil
}
