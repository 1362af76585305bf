package kv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/rights"
)

// Resource is a stream, a bucket or a consumer with its intended settings.
type Resource interface {
	// String is a name for messages: "bucket ids_register".
	String() string

	// InfoSubject is the request of the JetStream API that opens the resource.
	// A user without the right to it does not use the resource.
	InfoSubject() string

	// Look changes nothing. The error means that the resource is missing or
	// unusable.
	Look(ctx context.Context, js jetstream.JetStream) (Found, error)

	// Ensure creates it if it is missing.
	Ensure(ctx context.Context, js jetstream.JetStream) error

	// Apply creates it if it is missing, or corrects its settings, and returns
	// what it did.
	Apply(ctx context.Context, js jetstream.JetStream) (did string, err error)
}

// Found is a resource that is usable.
type Found struct {
	Difference string // the settings that differ from the intended settings
	// The missing copies; empty if none are, or without a cluster.
	Copies   string
	Replicas int // of a stream
}

// The results of Apply, in addition to "changed: " and the settings.
const (
	created = "created"
	asIs    = "as it should be"
)

// MissingError means that a resource is missing and could not be created.
type MissingError struct {
	Resource Resource
	Err      error
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is missing and cannot be created: %v", e.Resource, e.Err)
}

func (e *MissingError) Unwrap() error { return e.Err }

// missing wraps the error of creating r; nil stays nil.
func missing(r Resource, err error) error {
	if err == nil {
		return nil
	}
	return &MissingError{r, err}
}

// Ensure creates the resources that are missing, in order.
func Ensure(ctx context.Context, js jetstream.JetStream, all ...Resource) error {
	for _, r := range all {
		if err := r.Ensure(ctx, js); err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
	}
	return nil
}

// StreamName is the name of the stream beneath a bucket.
func StreamName(bucket string) string { return "KV_" + bucket }

// Lasting describes a bucket whose entries must last. The settings that it does
// not have are the same for all such buckets.
type Lasting struct {
	Bucket, Description string
	Replicas            int // see [Stream]
	Metadata            map[string]string
	First               uint64 // revision

	// Older is the evidence that the bucket existed before. A missing bucket is
	// not created if there is some; the error is an [*OlderError] then.
	Older []Trace

	// Birth makes its creation the birth of an installation, which is refused
	// while a server has a version that loses streams. An installation that
	// exists goes on there, because a refusal would turn an upgrade of idworker
	// into an outage, and so does the restore of one that was lost.
	Birth bool

	// Hold, if set, refuses a change of the present settings.
	Hold func(jetstream.StreamConfig) error

	// LeaveRoom makes Apply bound the bucket to three quarters of the account's
	// storage, if that is limited: a bucket that callers can fill must not take
	// the room of the others. The server reserves the bytes, so storage that
	// others have reserved does not count. A limit that is set already stays.
	LeaveRoom bool
}

// LastingBucket is a KV bucket whose entries must last. An existing bucket must
// pass [durability.CheckStream]. Its history is always 1, its storage always
// file, and its entries do not expire.
//
// The server denies purges and roll-ups, which leave no trace of an entry, and
// it allows atomic batches, see [Bucket.UpdateMany]. Apply corrects a bucket that
// lacks that because it was edited or restored by hand.
func LastingBucket(l Lasting) Resource {
	s := bucket(l.Bucket, l.Replicas, 0)
	s.check, s.lasts, s.lasting = durability.CheckStream, true, l
	s.create = func(ctx context.Context, js jetstream.JetStream) error {
		// As nats.go's CreateKeyValue, but for what Harden changes: an update
		// afterwards would leave a moment without it.
		c := jetstream.StreamConfig{
			Name: s.config.Name, Description: l.Description, Metadata: l.Metadata, Subjects: []string{"$KV." + l.Bucket + ".>"},
			Storage: jetstream.FileStorage, Replicas: max(1, l.Replicas),
			MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, Duplicates: 2 * time.Minute,
			DenyDelete: true, AllowDirect: true, Discard: jetstream.DiscardNew, FirstSeq: l.First,
		}
		Harden(&c, js.Conn())
		_, err := js.CreateStream(ctx, c)
		return err
	}
	return s
}

// mostBytes returns the limit that LeaveRoom sets, or 0: if there is one, the
// account has none, the user may not see it, others have reserved more than
// half, or the bucket is too large already.
func (s stream) mostBytes(ctx context.Context, js jetstream.JetStream, info *jetstream.StreamInfo) int64 {
	if !s.lasting.LeaveRoom || info.Config.MaxBytes > 0 {
		return 0
	}
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return 0
	}
	replicas := cmp.Or(s.config.Replicas, info.Config.Replicas, 1)
	has, copies := account.Tier, int64(replicas)
	// In operator mode, a number of replicas may have a limit of its own, in which
	// a stream's copies count once.
	if tier, ok := account.Tiers[fmt.Sprintf("R%d", replicas)]; ok {
		has, copies = tier, 1
	}
	free := has.Limits.MaxStore - int64(has.ReservedStore)
	most := free / 4 * 3 / copies
	if has.Limits.MaxStore <= 0 || free < has.Limits.MaxStore/2 || int64(info.State.Bytes) > most/10*9 {
		return 0
	}
	return most
}

// Harden makes the server of a bucket whose entries must last deny purges and
// roll-ups, and allow atomic batches if it can.
func Harden(c *jetstream.StreamConfig, conn *nats.Conn) {
	c.DenyPurge, c.AllowRollup = true, false
	c.AllowAtomicPublish = c.AllowAtomicPublish || atomicBatches(conn)
}

// LeaseBucket is a KV bucket whose entries expire after config.TTL, which must
// not be 0, unless they are written again. An existing bucket must have a TTL,
// but may have another.
func LeaseBucket(config jetstream.KeyValueConfig) Resource {
	s := bucket(config.Bucket, config.Replicas, config.TTL)
	s.check, s.repairs = checkExpires, true
	s.create = func(ctx context.Context, js jetstream.JetStream) error {
		config.History, config.Storage = 1, jetstream.FileStorage
		_, err := js.CreateKeyValue(ctx, config)
		return err
	}
	return s
}

func bucket(name string, replicas int, ttl time.Duration) stream {
	return stream{
		name: "bucket " + name, bucket: name,
		config: jetstream.StreamConfig{Name: StreamName(name), Storage: jetstream.FileStorage, Replicas: replicas, MaxAge: ttl},
	}
}

// checkExpires refuses a bucket whose entries never expire.
func checkExpires(c jetstream.StreamConfig) error {
	if c.MaxAge > 0 {
		return nil
	}
	return &durability.UnsafeError{
		Stream: c.Name, Setting: durability.NoExpiry,
		Reason: "leases of crashed processes would never expire",
	}
}

// stream is a stream, perhaps beneath a bucket.
type stream struct {
	name   string                 // for messages
	bucket string                 // the bucket above the stream, if any
	config jetstream.StreamConfig // the part that is compared
	create func(ctx context.Context, js jetstream.JetStream) error
	check  func(jetstream.StreamConfig) error // of an existing stream
	// Apply corrects settings that check refuses.
	repairs bool
	// Its settings are those of Harden, and of lasting, which is zero otherwise.
	lasts   bool
	lasting Lasting
}

// Stream is a stream with that configuration. 0 replicas create a single copy,
// and accept any number of an existing stream. check refuses settings that its
// users cannot work with and that cannot be changed in place.
func Stream(config jetstream.StreamConfig, check func(jetstream.StreamConfig) error) Resource {
	return stream{
		name:   "stream " + config.Name,
		config: config,
		create: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateStream(ctx, config)
			return err
		},
		check: check,
	}
}

func (s stream) String() string { return s.name }

// InfoSubject implements [Resource].
func (s stream) InfoSubject() string { return rights.StreamInfo(s.config.Name) }

// Ensure implements [Resource]. It also checks an existing stream.
func (s stream) Ensure(ctx context.Context, js jetstream.JetStream) error {
	found, err := s.find(ctx, js)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := s.admitBirth(ctx, js.Conn()); err != nil {
			return missing(s, err)
		}
		err = s.create(ctx, js)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return missing(s, err)
		}
		found, err = js.Stream(ctx, s.config.Name) // another process was first
	}
	if err != nil {
		return err
	}
	return s.check(found.CachedInfo().Config)
}

// Look implements [Resource].
func (s stream) Look(ctx context.Context, js jetstream.JetStream) (Found, error) {
	found, err := s.find(ctx, js)
	if err != nil {
		return Found{}, err
	}
	info := found.CachedInfo()
	if err := s.check(info.Config); err != nil {
		return Found{}, err
	}
	difference, err := s.compare(info.Config, js.Conn())
	return Found{difference, missingCopies(info), info.Config.Replicas}, err
}

// missingCopies describes the copies of a stream that are missing, or too few,
// on a cluster. A copy that is only a little behind is not missing.
func missingCopies(info *jetstream.StreamInfo) string {
	c := info.Cluster
	if c == nil || c.Name == "" { // no cluster
		return ""
	}
	if info.Config.Replicas <= 1 {
		return fmt.Sprintf("one copy only, on server %s of the cluster %s", c.Leader, c.Name)
	}
	var missing []string
	for _, r := range c.Replicas {
		if r.Offline || !r.Current && (r.Active > 5*time.Second || r.Lag > 1000) {
			missing = append(missing, r.Name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	where := "that of server"
	if len(missing) > 1 {
		where = "those of servers"
	}
	return fmt.Sprintf("%d of %d copies are current, not %s %s", info.Config.Replicas-len(missing), info.Config.Replicas, where, strings.Join(missing, ", "))
}

// compare describes the changeable settings in which a stream differs. The
// error names a setting that cannot be changed in place.
func (s stream) compare(have jetstream.StreamConfig, conn *nats.Conn) (difference string, err error) {
	if have.Storage != s.config.Storage {
		return "", fmt.Errorf("storage is %v, must be %v, and cannot be changed in place", have.Storage, s.config.Storage)
	}
	var changes []string
	if s.config.Replicas != 0 && have.Replicas != s.config.Replicas {
		changes = append(changes, fmt.Sprintf("replicas %d, were %d", s.config.Replicas, have.Replicas))
	}
	if have.MaxAge != s.config.MaxAge {
		changes = append(changes, fmt.Sprintf("ages after %v, was %v", s.config.MaxAge, have.MaxAge))
	}
	if s.lasts && (!have.DenyPurge || have.AllowRollup) {
		changes = append(changes, "purges denied, were allowed")
	}
	if s.lasts && !have.AllowAtomicPublish && atomicBatches(conn) {
		changes = append(changes, "atomic batches allowed")
	}
	return strings.Join(changes, ", "), nil
}

// Apply implements [Resource].
func (s stream) Apply(ctx context.Context, js jetstream.JetStream) (did string, err error) {
	found, err := s.find(ctx, js)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = s.admitBirth(ctx, js.Conn())
		if err == nil {
			err = s.create(ctx, js)
		}
		if err != nil {
			return "", missing(s, err)
		}
		did = created
		found, err = s.find(ctx, js)
	}
	if err != nil {
		return "", err
	}
	info := found.CachedInfo()
	have := info.Config
	if err := s.check(have); err != nil && !s.repairs {
		return "", err
	}
	changes, err := s.compare(have, js.Conn())
	if most := s.mostBytes(ctx, js, info); err == nil && most > 0 {
		have.MaxBytes = most
		changes = strings.TrimPrefix(fmt.Sprintf("%s, at most %d MB", changes, most>>20), ", ")
	}
	if err != nil || changes == "" {
		did = cmp.Or(did, asIs)
		if text := missingCopies(info); text != "" {
			did += ", but " + text
		}
		return did, err
	}
	if s.lasting.Hold != nil {
		if err := s.lasting.Hold(have); err != nil {
			return "", err
		}
	}
	if s.lasts {
		Harden(&have, js.Conn())
	}
	have.Replicas, have.MaxAge = cmp.Or(s.config.Replicas, have.Replicas), s.config.MaxAge
	if have.MaxAge > 0 && have.Duplicates > have.MaxAge {
		have.Duplicates = have.MaxAge // the server refuses a longer window
	}
	_, err = js.UpdateStream(ctx, have)
	if refused := new(jetstream.APIError); errors.As(err, &refused) && have.MaxBytes != info.Config.MaxBytes {
		s.lasting.LeaveRoom = false // the server cannot reserve as much
		again, err := s.Apply(ctx, js)
		return cmp.Or(did, again), err
	}
	if err != nil {
		return "", err
	}
	// An update has no condition: another one may have come between.
	again, err := js.Stream(ctx, s.config.Name)
	if err == nil && !maps.Equal(own(again.CachedInfo().Config.Metadata), own(have.Metadata)) {
		err = errChanged
	}
	return cmp.Or(did, "changed: "+changes), err
}

// own returns the metadata without that of the server.
func own(metadata map[string]string) map[string]string {
	all := maps.Clone(metadata)
	maps.DeleteFunc(all, func(key, _ string) bool { return strings.HasPrefix(key, "_nats.") })
	return all
}

// errChanged reports that another process changed the settings at the same
// time.
var errChanged = errors.New("its settings were changed by another process at the same time; check it with idworker doctor")

// consumer is a durable pull consumer.
type consumer struct {
	stream string
	config jetstream.ConsumerConfig
}

// Consumer is a durable consumer of a stream. Its configuration must set
// everything for which the server has its own default.
func Consumer(stream string, config jetstream.ConsumerConfig) Resource {
	return consumer{stream, config}
}

func (c consumer) String() string { return "consumer " + c.config.Durable + " of stream " + c.stream }

// InfoSubject implements [Resource].
func (c consumer) InfoSubject() string { return rights.ConsumerInfo(c.stream, c.config.Durable) }

// Look implements [Resource]. It does not compare settings.
func (c consumer) Look(ctx context.Context, js jetstream.JetStream) (Found, error) {
	_, err := js.Consumer(ctx, c.stream, c.config.Durable)
	return Found{}, err
}

// Ensure implements [Resource].
func (c consumer) Ensure(ctx context.Context, js jetstream.JetStream) error {
	_, err := js.Consumer(ctx, c.stream, c.config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = js.CreateOrUpdateConsumer(ctx, c.stream, c.config)
		return missing(c, err)
	}
	return err
}

// Apply implements [Resource].
func (c consumer) Apply(ctx context.Context, js jetstream.JetStream) (did string, err error) {
	found, err := js.Consumer(ctx, c.stream, c.config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = js.CreateOrUpdateConsumer(ctx, c.stream, c.config)
		return created, missing(c, err)
	}
	if err != nil {
		return "", err
	}
	before := found.CachedInfo().Config
	after, err := js.CreateOrUpdateConsumer(ctx, c.stream, c.config)
	if err != nil {
		return "", err
	}
	if reflect.DeepEqual(before, after.CachedInfo().Config) {
		return asIs, nil
	}
	return "changed", nil
}
