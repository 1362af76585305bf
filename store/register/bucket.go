package register

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
)

// BucketName is the name of the register's bucket.
func BucketName(p messages.Prefix) string { return string(p) + "_register" }

// ConfigKey is the key of the installation's config that holds the identity of
// the register's stream. A register that is missing, or was recreated, does not
// match it.
const ConfigKey = "register"

// ErrNoIdentity reports a bucket that was created by other means than [Create].
var ErrNoIdentity = problem.New(problem.NoIdentity, "it has no identity; idworker did not create it")

// Bucket is the bucket, with 1 to 5 replicas, an odd number. It is not created
// if the installation had a register before.
func Bucket(p messages.Prefix, replicas int) kv.Resource {
	return bucket(p, replicas, 0, map[string]string{metaID: nuid.Next()}, agreement.HasKey(p, ConfigKey))
}

func bucket(p messages.Prefix, replicas int, first uint64, meta map[string]string, older ...kv.Trace) kv.Resource {
	return kv.LastingBucket(kv.Lasting{
		Bucket: BucketName(p), Description: "idworker: how far each tag was granted", Replicas: replicas, Metadata: meta,
		First: first, Older: older, Hold: whileRaised, LeaveRoom: true,
	})
}

// ErrRaising means that the settings of the register's stream cannot be changed,
// because its metadata has the mark of a raise: an update has no condition, and
// could write the metadata back without the mark.
var ErrRaising = problem.New(problem.Raising, "all tags are being raised, or a raise was interrupted")

func whileRaised(c jetstream.StreamConfig) error {
	if c.Metadata[metaRaising] != "" {
		return ErrRaising
	}
	return nil
}

// Create creates the installation's config bucket and the register, each if it
// is missing and the installation had none before, and records the register's
// identity, see [Record]. Existing buckets are not changed.
func Create(ctx context.Context, js jetstream.JetStream, p messages.Prefix, replicas int) error {
	if err := p.Check(); err != nil {
		return err
	}
	older := kv.HasEntries(BucketName(p))
	if err := kv.Ensure(ctx, js, agreement.NewBucket(p, replicas, older)); err != nil {
		return err
	}
	agreed, err := agreement.Open(ctx, js, p)
	if err == nil { // which precedes the register
		_, _, err = agreed.Installation(ctx, older)
	}
	if err == nil {
		err = kv.Ensure(ctx, js, Bucket(p, replicas))
	}
	if err != nil {
		return err
	}
	return Record(ctx, js, p)
}

// Record records the identity of the bucket in the installation's config. Both
// buckets must exist. A config that lacks it is refused, with a [*kv.OlderError],
// if it was made after a register that has entries: that one has lost the settings
// of the installation, and none is made anew.
func Record(ctx context.Context, js jetstream.JetStream, p messages.Prefix) error {
	stream, err := js.Stream(ctx, kv.StreamName(BucketName(p)))
	if err != nil {
		return fmt.Errorf("bucket %s: %w", BucketName(p), err)
	}
	found := stream.CachedInfo()
	id := pollOf(found).ID
	if id == "" {
		return fmt.Errorf("bucket %s: %w", BucketName(p), ErrNoIdentity)
	}
	agreed, err := agreement.Open(ctx, js, p)
	if err != nil {
		return err
	}
	if _, had, err := agreed.Find(ctx, ConfigKey); err != nil || had {
		return err
	}
	if found.State.Msgs > 0 && agreed.MadeAfter(found.Created) {
		return &kv.OlderError{Bucket: agreement.BucketName(p), Key: ConfigKey, What: fmt.Sprintf("bucket %s is older and not empty (entries: %d)", BucketName(p), found.State.Msgs)}
	}
	_, err = agreed.Agree(ctx, ConfigKey, id)
	return err
}

// Rights are the rights that a role needs for the register.
func Rights(p messages.Prefix, role rights.Duty) rights.Rights {
	name, config := BucketName(p), agreement.BucketName(p)
	read := rights.Join(rights.ReadBucket(name), rights.WatchBucket(name), rights.ReadBucket(config))
	use := rights.Join(read, rights.WriteBucket(name, ">"))
	switch role {
	case rights.Monitor:
		return rights.Join(rights.ReadBucket(name), rights.ReadBucket(config))
	case rights.Backup:
		return read
	case rights.Loader:
		return rights.Join(use, rights.WriteBucket(config, ConfigKey))
	case rights.Admin:
		return rights.Join(rights.ProvisionBucket(name), use)
	}
	return rights.Rights{}
}
