package resource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/rights"
)

// stream is a stream, or the one beneath a bucket.
type stream struct {
	name   string                 // for people
	bucket string                 // whose stream it is, if it is one's
	config jetstream.StreamConfig // as far as it is compared
	create func(ctx context.Context, js jetstream.JetStream) error
	check  func(jetstream.StreamConfig) error // of one that exists
	mends  bool                               // Apply puts right what check refuses
	older  []Evidence                         // that it has been there, if it is missing
}

// Stream is a stream with that configuration; 0 replicas are one if it is created, and any
// number if it exists. What its users rely on, and what cannot be
// changed in place, check finds out.
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

// Ensure implements [Resource]. It also checks what there is.
func (s stream) Ensure(ctx context.Context, js jetstream.JetStream) error {
	found, err := s.find(ctx, js)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = s.create(ctx, js)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return missing(s, err)
		}
		found, err = js.Stream(ctx, s.config.Name) // somebody else was first
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
	difference, err := s.compare(info.Config)
	return Found{difference, missingCopies(info)}, err
}

// missingCopies says which copies of a stream are missing, or are too few on a cluster. One that
// is only a little behind is on its way.
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

// compare says in which settings that can be changed a stream differs. The error says
// what cannot be changed in place.
func (s stream) compare(have jetstream.StreamConfig) (difference string, err error) {
	if have.Storage != s.config.Storage {
		return "", fmt.Errorf("its storage is %v and should be %v, which cannot be changed in place", have.Storage, s.config.Storage)
	}
	var changes []string
	if s.config.Replicas != 0 && have.Replicas != s.config.Replicas {
		changes = append(changes, fmt.Sprintf("replicas %d, were %d", s.config.Replicas, have.Replicas))
	}
	if have.MaxAge != s.config.MaxAge {
		changes = append(changes, fmt.Sprintf("ages after %v, was %v", s.config.MaxAge, have.MaxAge))
	}
	return strings.Join(changes, ", "), nil
}

// Apply implements [Resource].
func (s stream) Apply(ctx context.Context, js jetstream.JetStream) (did string, err error) {
	found, err := s.find(ctx, js)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return created, missing(s, s.create(ctx, js))
	}
	if err != nil {
		return "", err
	}
	have := found.CachedInfo().Config
	if err := s.check(have); err != nil && !s.mends {
		return "", err
	}
	changes, err := s.compare(have)
	if err != nil || changes == "" {
		if text := missingCopies(found.CachedInfo()); text != "" {
			return asIs + ", but " + text, err
		}
		return asIs, err
	}
	have.Replicas, have.MaxAge = cmp.Or(s.config.Replicas, have.Replicas), s.config.MaxAge
	if have.MaxAge > 0 && have.Duplicates > have.MaxAge {
		have.Duplicates = have.MaxAge // the server refuses a longer window
	}
	if _, err := js.UpdateStream(ctx, have); err != nil {
		return "", err
	}
	return "changed: " + changes, nil
}
