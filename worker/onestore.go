package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
)

// ErrForeignStore is that the installation counts in another store.
var ErrForeignStore = errors.New("the installation counts in another store")

// storeKey is where the config bucket names the store.
const storeKey = "store"

// ClaimStore makes sure that all of an installation counts in one store. The first
// loader writes down which; a process with another would hand out the same numbers
// again, because somebody forgot a flag. The name has no host in it, for one database
// has many.
func ClaimStore(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, name string) error {
	kv, err := js.KeyValue(ctx, agreement.BucketName(prefix))
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", agreement.BucketName(prefix), err)
	}
	err = sameStore(ctx, kv, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		if _, err := kv.Create(ctx, storeKey, []byte(name)); err == nil {
			return nil
		}
		err = sameStore(ctx, kv, name) // somebody else was first, or the answer is lost
	}
	return err
}

// CheckStore is ClaimStore for those who only look: where no loader has been yet, any
// store is right.
func CheckStore(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, name string) error {
	kv, err := js.KeyValue(ctx, agreement.BucketName(prefix))
	if err == nil {
		err = sameStore(ctx, kv, name)
	}
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	return err
}

// sameStore compares the name with what is written down.
func sameStore(ctx context.Context, kv jetstream.KeyValue, name string) error {
	entry, err := kv.Get(ctx, storeKey)
	if err != nil {
		return fmt.Errorf("bucket %s, key %s: %w", kv.Bucket(), storeKey, err)
	}
	if have := string(entry.Value()); have != name {
		return fmt.Errorf("%w: it is %q, and this process was given %q; give it the same --store and --table. If the counters were moved on purpose, with all processes stopped, delete the key %s of the bucket %s",
			ErrForeignStore, have, name, storeKey, kv.Bucket())
	}
	return nil
}
