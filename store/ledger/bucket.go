package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/register"
)

// BucketName is the name of the bucket.
func BucketName(p messages.Prefix) string { return string(p) + "_ledger" }

// Bucket is the bucket, with replicas copies, 1 to 5, odd. It is not made where the installation
// has completed one before.
func Bucket(prefix messages.Prefix, replicas int) resource.Resource {
	return bucketUnless(prefix, replicas, agreement.HasKey(prefix, ConfigKey))
}

func bucketUnless(prefix messages.Prefix, replicas int, older ...resource.Evidence) resource.Resource {
	return resource.Bucket(jetstream.KeyValueConfig{
		Bucket: BucketName(prefix), Description: "idworker: how far each tag was granted", Replicas: replicas,
	}, older...)
}

// CreateAgain creates the bucket if it is missing, even if the installation had a complete one.
// It is for who has decided from where on to count, and calls [Store.Restored] next.
func CreateAgain(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	return resource.Ensure(ctx, js, bucketUnless(prefix, replicas))
}

// Create creates the bucket if it is missing and the installation never had a complete one;
// see [Bucket]. The error is a [*LostError] if it had.
func Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	_, err := (&bound{js: js, prefix: prefix}).open(ctx)
	if errors.Is(err, errNone) {
		return resource.Ensure(ctx, js, Bucket(prefix, replicas))
	}
	return err
}

// ConfigKey is the key of the installation's config that says that the ledger is complete. Its
// value is the ledger's identity.
const ConfigKey = agreement.LedgerKey

// identityKey is the key of the bucket that holds its identity. No tag has such a name.
const identityKey = "=id"

// bound is the ledger in its bucket, which is opened when it is first needed.
type bound struct {
	js     jetstream.JetStream
	prefix messages.Prefix
	server string
	echoes register.Echoes
	opened atomic.Pointer[register.Bucket]
	same   register.Sharing // whether it is the ledger that the installation has
}

// open opens the bucket, and makes sure that it is the one that the installation has. Errors:
// errNone, a [*LostError], durability.ErrUnsafe; anything else means that JetStream is away.
func (b *bound) open(ctx context.Context) (*register.Bucket, error) {
	if bucket := b.opened.Load(); bucket != nil {
		return bucket, nil
	}
	bucket, err := b.find(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.checkIdentity(ctx, bucket); err != nil {
		return nil, err
	}
	b.opened.Store(bucket)
	return bucket, nil
}

// find opens the bucket, whichever ledger it is: one that was lost may be watched, and entries
// in it may be raised. Errors as for open.
func (b *bound) find(ctx context.Context) (*register.Bucket, error) {
	if bucket := b.opened.Load(); bucket != nil {
		return bucket, nil
	}
	kv, stream, err := resource.OpenBucket(ctx, b.js, BucketName(b.prefix))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, b.checkMissing(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &register.Bucket{JS: b.js, KV: kv, Stream: stream, Echoes: &b.echoes, Decode: func(value []byte) (int64, int64, error) {
		high, err := decode(value)
		return high, 0, err
	}}, nil
}

// checkMissing says what it means that there is no bucket: errNone, or a [*LostError].
func (b *bound) checkMissing(ctx context.Context) error {
	_, complete, err := b.completeAs(ctx)
	switch {
	case err != nil:
		return err
	case complete:
		return b.lost("it is missing")
	}
	return errNone
}

// checkIdentity makes sure that a bucket is the one that was completed, if one was.
func (b *bound) checkIdentity(ctx context.Context, bucket *register.Bucket) error {
	want, complete, err := b.completeAs(ctx)
	if err != nil || !complete {
		return err
	}
	have, err := bucket.Read(ctx, identityKey)
	switch {
	case err != nil:
		return err
	case have.Value == nil:
		return b.lost("it was made again, or emptied")
	case string(have.Value) != want:
		return b.lost("it is another one")
	}
	return nil
}

// completeAs returns the identity of the ledger that the installation completed, if any.
func (b *bound) completeAs(ctx context.Context) (identity string, complete bool, err error) {
	agreed, err := agreement.Open(ctx, b.js, b.prefix)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return agreed.Find(ctx, ConfigKey)
}

// identify returns the identity of the bucket, and gives it one if it has none.
func (b *bound) identify(ctx context.Context, bucket *register.Bucket, identity string) (string, error) {
	if identity == "" {
		identity = nuid.Next()
	}
	for {
		have, err := bucket.Read(ctx, identityKey)
		if err != nil || have.Value != nil {
			return string(have.Value), err
		}
		_, err = bucket.KV.Update(ctx, identityKey, []byte(identity), have.Revision)
		if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return "", err
		}
	}
}

// read implements [book].
func (b *bound) read(ctx context.Context, tag string) (mark, error) {
	bucket, err := b.open(ctx)
	if err != nil {
		return mark{}, err
	}
	entry, err := bucket.Read(ctx, tag)
	switch {
	case err != nil:
		return mark{}, b.explain(ctx, err)
	case entry.Value == nil && entry.Revision != 0:
		return mark{}, b.lostTag(tag)
	case entry.Value == nil:
		return mark{}, nil
	}
	high, err := decode(entry.Value)
	return mark{high, entry.Revision}, err
}

// write implements [book]. An entry is made only in the ledger that the installation has.
func (b *bound) write(ctx context.Context, tag string, high int64, revision uint64) (uint64, error) {
	bucket, err := b.open(ctx)
	if err != nil {
		return 0, err
	}
	if revision == 0 {
		err := b.same.Do(ctx, func(ctx context.Context) error { return b.checkIdentity(ctx, bucket) })
		if err != nil {
			return 0, err
		}
	}
	return b.update(ctx, bucket, tag, high, revision)
}

func (b *bound) update(ctx context.Context, bucket *register.Bucket, tag string, high int64, revision uint64) (uint64, error) {
	written, err := bucket.Write(ctx, tag, encode(entry{high, b.server}), revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return 0, errStale
	}
	return written, b.explain(ctx, err)
}

// create creates the bucket, which the installation does not have, with as many replicas as the
// config has.
func (b *bound) create(ctx context.Context) error {
	kv, err := b.js.KeyValue(ctx, agreement.BucketName(b.prefix))
	if err != nil {
		return err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return err
	}
	return Create(ctx, b.js, b.prefix, status.Config().Replicas)
}

// explain finds out whether an error means that the bucket is gone. The stream of a bucket that
// is gone just does not answer.
func (b *bound) explain(ctx context.Context, err error) error {
	if !errors.Is(err, jetstream.ErrNoStreamResponse) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	_, infoErr := b.js.Stream(ctx, resource.BucketStream(BucketName(b.prefix)))
	if errors.Is(infoErr, jetstream.ErrStreamNotFound) {
		b.opened.Store(nil)
		return b.checkMissing(ctx)
	}
	return err
}

// raise moves the entry of a tag up to high, whatever it is now.
func (b *bound) raise(ctx context.Context, tag string, high int64) error {
	bucket, err := b.find(ctx)
	if err != nil {
		return err
	}
	for {
		entry, err := bucket.Read(ctx, tag)
		if err != nil {
			return err
		}
		if entry.Value != nil {
			if have, err := decode(entry.Value); err != nil || have >= high {
				return err
			}
		}
		if _, err = b.update(ctx, bucket, tag, high, entry.Revision); !errors.Is(err, errStale) {
			return err
		}
	}
}

// servers implements [book].
func (b *bound) servers(ctx context.Context, tag string) (own, last string) {
	var e entry
	if bucket, err := b.find(ctx); err == nil {
		if found, err := bucket.Read(ctx, tag); err == nil {
			_ = json.Unmarshal(found.Value, &e) // what cannot be read is not known
		}
	}
	return b.server, e.Server
}

func (b *bound) lost(reason string) error {
	return &LostError{Bucket: BucketName(b.prefix), Reason: reason, Config: agreement.BucketName(b.prefix), Key: ConfigKey}
}

func (b *bound) lostTag(tag string) error {
	return &LostError{Bucket: BucketName(b.prefix), Tag: tag, Reason: "the entry was deleted", Config: agreement.BucketName(b.prefix), Key: ConfigKey}
}

// entry is the value of a key.
type entry struct {
	High   int64  `json:"high"`             // the end of everything that was granted, at least 1
	Server string `json:"server,omitempty"` // where the store of the loader is that wrote this
}

func encode(e entry) []byte {
	data, err := json.Marshal(e)
	if err != nil { // an integer and a string always marshal
		panic(err)
	}
	return data
}

// decode reads a value. Anything that is not exactly one is store.ErrCorrupt: a guess could
// grant IDs a second time. Fields that a later version adds are passed over.
func decode(value []byte) (high int64, err error) {
	var e entry
	d := json.NewDecoder(bytes.NewReader(value))
	if err := d.Decode(&e); err != nil {
		return 0, fmt.Errorf("%w: %.100q: %w", store.ErrCorrupt, value, err)
	}
	if _, err := d.Token(); err != io.EOF || e.High < 1 {
		return 0, fmt.Errorf("%w: %.100q: high must be 1 or more, and nothing may follow", store.ErrCorrupt, value)
	}
	return e.High, nil
}
