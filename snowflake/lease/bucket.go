package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
)

// bucket is the part of a KV bucket that this package uses. The tests inject
// faults with an implementation of their own.
type bucket interface {
	// list returns the latest entry of each key, deleted entries too. It may
	// miss concurrent writes. It has no time limit while entries arrive, and
	// fails when the server falls silent.
	list(ctx context.Context) ([]bucketEntry, error)

	// get returns the latest entry of a key, or an older entry, or errAbsent.
	get(ctx context.Context, key string) (bucketEntry, error)

	// update writes if the key is at that revision, 0 for none, and returns the
	// new revision. After errConflict nothing was written, unless the client
	// sent the message twice; after any other error the outcome is unknown.
	update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)

	// remove deletes if the key is at that revision. Errors are those of
	// update.
	remove(ctx context.Context, key string, revision uint64) error
}

// bucketEntry is an entry of a bucket.
type bucketEntry struct {
	key      string
	value    []byte
	revision uint64
	created  time.Time // server time
	deleted  bool      // a deletion marker
}

var (
	errAbsent   = errors.New("no such key")
	errConflict = errors.New("key was changed concurrently")
)

// kvBucket is a bucket in JetStream. It reads from any replica: a leader that
// froze answers nothing, and a worker ID depends on an answer in time.
type kvBucket struct {
	js jetstream.JetStream
	kv *kv.Bucket
}

func (b kvBucket) list(ctx context.Context) (all []bucketEntry, err error) {
	err = kv.List(ctx, b.js, b.kv.Name(), func(e kv.Entry) { all = append(all, bucketEntryOf(e)) })
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", b.kv.Name(), bucketError(err))
	}
	return all, nil
}

// listBucket reads all of a bucket, however it is configured, and needs its
// leader: entries that are being written again are not missing.
func listBucket(ctx context.Context, js jetstream.JetStream, name string, way kv.Way) (all []bucketEntry, err error) {
	found, err := kv.Latest(ctx, js, name, way)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, bucketError(err))
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		all = append(all, bucketEntryOf(found[key]))
	}
	return all, nil
}

func (b kvBucket) get(ctx context.Context, key string) (bucketEntry, error) {
	e, err := b.kv.Peek(ctx, key)
	if err == nil && !e.Exists() {
		err = fmt.Errorf("bucket %s, key %s: %w", b.kv.Name(), key, errAbsent)
	}
	return bucketEntryOf(e), bucketError(err)
}

func (b kvBucket) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	revision, err := b.kv.Update(ctx, key, value, revision)
	return revision, bucketError(err)
}

func (b kvBucket) remove(ctx context.Context, key string, revision uint64) error {
	return bucketError(b.kv.Delete(ctx, key, revision))
}

func bucketEntryOf(e kv.Entry) bucketEntry {
	return bucketEntry{e.Key, e.Value, e.Revision, e.Created, e.Deleted}
}

// bucketError makes an errConflict, or an ErrBucketNotFound, of JetStream's
// errors; nil stays nil.
func bucketError(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return fmt.Errorf("%w: %w", errConflict, err)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: %w", jetstream.ErrBucketNotFound, err)
	}
	return err
}

// callTimeout bounds a request to JetStream. The fence bounds a whole
// heartbeat.
const callTimeout = 5 * time.Second

// callTimeoutFor bounds a request to JetStream while a worker ID depends on the
// answer. A frozen server never answers. The next request goes to another
// server, and must be early enough to keep the worker ID.
func callTimeoutFor(ttl time.Duration) time.Duration {
	return min(callTimeout, max(time.Second, ttl/6))
}

// bounded is a bucket with a timeout for each request. A list has another
// bound, because its duration depends on the number of entries.
type bounded struct {
	bucket
	// Its TTL becomes that of the bucket of leases, and the time follows.
	cfg *Config
}

func (b bounded) get(ctx context.Context, key string) (bucketEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeoutFor(b.cfg.TTL))
	defer cancel()
	return b.bucket.get(ctx, key)
}

func (b bounded) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeoutFor(b.cfg.TTL))
	defer cancel()
	return b.bucket.update(ctx, key, value, revision)
}

func (b bounded) remove(ctx context.Context, key string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeoutFor(b.cfg.TTL))
	defer cancel()
	return b.bucket.remove(ctx, key, revision)
}

// server returns the server's time, and the state of the two buckets' streams.
type server interface {
	state(ctx context.Context) (serverState, error)

	// leaseTTL returns the present TTL of the bucket of leases.
	leaseTTL(ctx context.Context) (time.Duration, error)
}

// serverState is the reply of the leader of the clock bucket's stream.
type serverState struct {
	now  time.Time
	last uint64 // sequence of the stream
}

// streamServer requests from the leaders of the two buckets' streams.
type streamServer struct{ clocks, leases jetstream.Stream }

func (s streamServer) state(ctx context.Context) (serverState, error) {
	info, err := streamInfo(ctx, s.clocks)
	if err != nil {
		return serverState{}, err
	}
	return serverState{info.TimeStamp, info.State.LastSeq}, nil
}

func (s streamServer) leaseTTL(ctx context.Context) (time.Duration, error) {
	info, err := streamInfo(ctx, s.leases)
	if err != nil {
		return 0, err
	}
	return info.Config.MaxAge, nil
}

func streamInfo(ctx context.Context, s jetstream.Stream) (*jetstream.StreamInfo, error) {
	info, err := s.Info(ctx)
	if err == nil && info.Cluster != nil && info.Cluster.Leader == "" {
		err = kv.ErrNoLeader // its answer may be old
	}
	if err != nil {
		err = fmt.Errorf("stream %s: %w", s.CachedInfo().Config.Name, err)
	}
	return info, err
}

// ClockBucketName is the name of the bucket that stores, for each worker ID, the
// end of its reserved time.
func ClockBucketName(p messages.Prefix) string { return string(p) + "_clock" }

// WorkersBucketName is the name of the bucket in which worker IDs are leased.
func WorkersBucketName(p messages.Prefix) string { return string(p) + "_workers" }

// Resources are the three buckets, with replicas copies, 1 to 5, odd, and the
// TTL for the leases. Two buckets prove that another existed before, which is
// then not created again: an identity that was agreed on proves the clock
// bucket, and entries of the clock bucket prove the config bucket.
func Resources(prefix messages.Prefix, ttl time.Duration, replicas int) []kv.Resource {
	return []kv.Resource{
		agreement.NewBucket(prefix, replicas, kv.HasEntries(ClockBucketName(prefix))),
		clockBucket(prefix, replicas, agreement.HasKey(prefix, ClockIDKey)),
		kv.LeaseBucket(jetstream.KeyValueConfig{
			Bucket: WorkersBucketName(prefix), Description: "idworker: leases of worker IDs", Replicas: replicas, TTL: ttl,
		}),
	}
}

func clockBucket(prefix messages.Prefix, replicas int, older ...kv.Trace) kv.Resource {
	return kv.LastingBucket(kv.Lasting{
		Bucket: ClockBucketName(prefix), Description: "idworker: end of the reserved time of each worker ID", Replicas: replicas, Older: older,
	})
}

// Create creates the missing buckets, see [Resources]. It does not change
// existing buckets; [Open] checks them.
func Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, ttl time.Duration, replicas int) error {
	if err := prefix.Check(); err != nil {
		return err
	}
	return kv.Ensure(ctx, js, Resources(prefix, ttl, replicas)...)
}
