package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/nonce"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// ReadLeases is [Ownership.Leases] for those who take no part: it reads the bucket. Each lease that had
// been made before is there, whichever replica the entries come from.
func ReadLeases(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) ([]Lease, error) {
	kv, _, err := resource.OpenBucket(ctx, js, BucketName(prefix))
	if err != nil {
		return nil, err
	}
	latest, err := leader.Last(ctx, js, resource.BucketStream(kv.Bucket()), ">")
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, err
	}
	f, err := kvBucket{js, kv, prefix}.follow(ctx)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v, read := newView(), uint64(0)
	written := make(map[uint64]time.Time) // by revision
	for !f.CaughtUp() || read < latest.Sequence {
		entry, err := f.Next(ctx)
		if err != nil {
			return nil, err
		}
		read = entry.Revision
		written[read] = entry.Created
		if _, _, err := v.apply(record{entry.Key, entry.Value, entry.Revision}, 0); err != nil {
			return nil, err
		}
	}
	all := v.list()
	for i := range all {
		l := &all[i]
		if l.Heard = written[l.sighting.revision]; l.Lost { // that is when others ended it
			l.Heard = l.Heard.Add(-l.sighting.term())
		}
	}
	return all, nil
}

// ErrNotLost says that a lease has not been ended by others: its process may be alive.
var ErrNotLost = errors.New("its lease has not run out")

// DeclareEnded records that the process of a lost lease, as [ReadLeases] has returned it, has ended for
// certain. From then on nobody waits for it.
func DeclareEnded(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, l Lease) error {
	switch {
	case l.Gone:
		return nil
	case !l.Lost:
		return fmt.Errorf("%w: %s", ErrNotLost, l.Instance)
	}
	kv, _, err := resource.OpenBucket(ctx, js, BucketName(prefix))
	if err != nil {
		return err
	}
	v := l.sighting.leaseValue
	v.Ended, v.Write = gone, nonce.New()
	_, err = kvBucket{js, kv, prefix}.write(ctx, leaseKey(l.place), encode(v), l.sighting.revision)
	return err
}
