package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/store"
)

// That a bucket has no entry for a tag says that the tag is new only if it is the bucket in which the
// installation has counted so far. One that was lost and made again has no entries either. Which bucket it
// is, the moment shows at which it was made. The installation's config has that of the bucket in which the
// first tag of a template was made, under [ConfigKey], from before that tag was made.
//
// A bucket that was restored from a backup may be the same by that, and knows less. What helps then is that
// who restores raises all tags and all templates.

// ConfigKey is the key of the installation's config that says which bucket it counts in.
const ConfigKey = "segments_made"

// CheckSame makes sure that the bucket is the installation's. One that has no template yet takes it for its
// own. The error wraps [store.ErrUncertain], also if it could not be found out.
func (s *Store) CheckSame(ctx context.Context) error {
	err := s.same.Do(ctx, s.compare)
	if err != nil && !errors.Is(err, store.ErrUncertain) {
		err = fmt.Errorf("%w: %w", store.ErrUncertain, err)
	}
	return err
}

func (s *Store) compare(ctx context.Context) error {
	agreed, own, err := s.identity(ctx)
	if err != nil || agreed == nil {
		return err
	}
	have, err := agreed.Agree(ctx, ConfigKey, own)
	if err == nil && have != own {
		err = fmt.Errorf("%w: bucket %s was made at %s, and the one in which the installation counted at %s", store.ErrUncertain, s.bucket, own, have)
	}
	return err
}

// Accept makes the bucket the installation's, if that had another one. It is for who has decided from where
// on to count: all tags of the bucket are raised, and all templates.
func (s *Store) Accept(ctx context.Context) error {
	agreed, own, err := s.identity(ctx)
	if err != nil || agreed == nil {
		return err
	}
	have, found, err := agreed.Find(ctx, ConfigKey)
	if err != nil || !found || have == own {
		return err
	}
	kv, err := s.js.KeyValue(ctx, agreement.BucketName(s.prefix))
	if err == nil {
		_, err = kv.Put(ctx, ConfigKey, []byte(own))
	}
	return err
}

// identity returns the installation's config, nil if there is none, and what identifies the bucket.
func (s *Store) identity(ctx context.Context) (agreed *agreement.Agreement, own string, err error) {
	if agreed = s.agreed.Load(); agreed == nil {
		agreed, err = agreement.Open(ctx, s.js, s.prefix)
		if errors.Is(err, natsjs.ErrBucketNotFound) {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		s.agreed.Store(agreed)
	}
	_, made, err := s.Position(ctx)
	return agreed, made.UTC().Format(time.RFC3339Nano), err
}
