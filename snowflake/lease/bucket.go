package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
)

// bucket is what the rest of the package needs of a KV bucket. The tests have
// another one, in which everything goes wrong that can.
type bucket interface {
	// list returns the latest of each key, deleted ones too. While others write, it
	// may miss some. However many there are, it goes on as long as they come; it fails
	// when the server falls silent.
	list(ctx context.Context) ([]record, error)

	// get returns the latest of a key, or an older one, or errAbsent.
	get(ctx context.Context, key string) (record, error)

	// update writes if the key is at that revision, 0 for none, and returns the new
	// one. errConflict says that the key is not; after any other error, and if the
	// message was sent twice after that one too, it may have been written.
	update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)

	// remove deletes if the key is at that revision. Errors are those of update.
	remove(ctx context.Context, key string, revision uint64) error
}

// record is an entry of a bucket.
type record struct {
	key      string
	value    []byte
	revision uint64
	created  time.Time // server time
	deleted  bool      // a marker that says so
}

var (
	errAbsent   = errors.New("no such key")
	errConflict = errors.New("key was changed concurrently")
)

// kvBucket is a bucket in JetStream. It reads from any replica: a leader that froze
// answers nothing, and a worker ID depends on an answer in time.
type kvBucket struct {
	js jetstream.JetStream
	kv *kv.Bucket
}

func (b kvBucket) list(ctx context.Context) ([]record, error) {
	return listBucket(ctx, b.js, b.kv.Name())
}

// listBucket reads all of a bucket, however it is configured.
func listBucket(ctx context.Context, js jetstream.JetStream, name string) (all []record, err error) {
	err = kv.List(ctx, js, name, func(e kv.Entry) { all = append(all, recordOf(e)) })
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, bucketError(err))
	}
	return all, nil
}

func (b kvBucket) get(ctx context.Context, key string) (record, error) {
	e, err := b.kv.Peek(ctx, key)
	if err == nil && !e.Exists() {
		err = fmt.Errorf("bucket %s, key %s: %w", b.kv.Name(), key, errAbsent)
	}
	return recordOf(e), bucketError(err)
}

func (b kvBucket) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	revision, err := b.kv.Update(ctx, key, value, revision)
	return revision, bucketError(err)
}

func (b kvBucket) remove(ctx context.Context, key string, revision uint64) error {
	return bucketError(b.kv.Delete(ctx, key, revision))
}

func recordOf(e kv.Entry) record {
	return record{e.Key, e.Value, e.Revision, e.Created, e.Deleted}
}

// bucketError makes an errConflict, or an ErrBucketNotFound, of JetStream's errors; nil
// stays nil.
func bucketError(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return fmt.Errorf("%w: %w", errConflict, err)
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: %w", jetstream.ErrBucketNotFound, err)
	}
	return err
}

// callTimeout bounds one request to JetStream. A heartbeat as a whole ends with the TTL.
const callTimeout = 5 * time.Second

// callTimeoutFor bounds one request to JetStream where a worker ID depends on the answer. A
// request that was sent to a server that froze is never answered. The next one, which goes to
// another server, must come early enough to keep the worker ID.
func callTimeoutFor(ttl time.Duration) time.Duration {
	return min(callTimeout, max(time.Second, ttl/6))
}

// bounded is a bucket each of whose requests ends after a time. How long a list takes depends on
// what is in the bucket, so that is bounded otherwise.
type bounded struct {
	bucket
	cfg *Config // its TTL becomes that of the bucket of leases, and the time follows
}

func (b bounded) get(ctx context.Context, key string) (record, error) {
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

// server tells its time, and about the streams of the two buckets.
type server interface {
	ask(ctx context.Context) (answer, error)

	// leaseTTL is after how long the bucket of leases forgets an entry now.
	leaseTTL(ctx context.Context) (time.Duration, error)
}

// answer is what the leader of the clock bucket's stream says.
type answer struct {
	now  time.Time
	last uint64 // sequence of the stream
}

// streamServer asks the leaders of the two buckets' streams.
type streamServer struct{ clocks, leases jetstream.Stream }

func (s streamServer) ask(ctx context.Context) (answer, error) {
	info, err := askStream(ctx, s.clocks)
	if err != nil {
		return answer{}, err
	}
	return answer{info.TimeStamp, info.State.LastSeq}, nil
}

func (s streamServer) leaseTTL(ctx context.Context) (time.Duration, error) {
	info, err := askStream(ctx, s.leases)
	if err != nil {
		return 0, err
	}
	return info.Config.MaxAge, nil
}

func askStream(ctx context.Context, s jetstream.Stream) (*jetstream.StreamInfo, error) {
	info, err := s.Info(ctx)
	if err == nil && info.Cluster != nil && info.Cluster.Leader == "" {
		err = kv.ErrNoLeader // its answer may be old
	}
	if err != nil {
		err = fmt.Errorf("stream %s: %w", s.CachedInfo().Config.Name, err)
	}
	return info, err
}

// ClockBucketName is the name of the bucket that says up to when each worker ID's time has
// been given away.
func ClockBucketName(p messages.Prefix) string { return string(p) + "_clock" }

// WorkersBucketName is the name of the bucket in which worker IDs are leased.
func WorkersBucketName(p messages.Prefix) string { return string(p) + "_workers" }

// Resources are the three buckets, with replicas copies, 1 to 5, odd, and the TTL for the
// leases. The clock bucket is not made where one was agreed on, nor the config bucket where the
// clock bucket has entries: both were there.
func Resources(prefix messages.Prefix, ttl time.Duration, replicas int) []kv.Resource {
	return []kv.Resource{
		agreement.Bucket(prefix, replicas, kv.HasEntries(ClockBucketName(prefix))),
		kv.LastingBucket(jetstream.KeyValueConfig{
			Bucket: ClockBucketName(prefix), Description: "idworker: end of the reserved time of each worker ID", Replicas: replicas,
		}, agreement.HasKey(prefix, clockIDKey)),
		kv.LeaseBucket(jetstream.KeyValueConfig{
			Bucket: WorkersBucketName(prefix), Description: "idworker: leases of worker IDs", Replicas: replicas, TTL: ttl,
		}),
	}
}

// Create creates the three buckets where they are missing, see [Resources]. What exists is
// left as it is; whether it is safe, [Open] finds out.
func Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, ttl time.Duration, replicas int) error {
	if err := prefix.Check(); err != nil {
		return err
	}
	return kv.Ensure(ctx, js, Resources(prefix, ttl, replicas)...)
}
