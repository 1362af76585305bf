package messages

import (
	"errors"
	"fmt"
	"time"
)

// ErrPrefetch is wrapped by the errors of [Client.Prefetch] for a configuration
// that is out of bounds.
var ErrPrefetch = errors.New("bad prefetch configuration")

// PrefetchConfig bounds the buffer of a [Prefetcher]. Zero means the default.
type PrefetchConfig struct {
	// Runway is the time that the buffered IDs should still last, at the
	// present rate, when more are requested: 1ms to 1h, by default 1s.
	Runway time.Duration

	// Limit is the maximum number of IDs buffered or in flight, apart from the
	// batch in use: 1 to 1,000,000,000, by default 1,000,000.
	Limit int64

	// MaxBatch is the maximum number of IDs in one request: 1 to 1,000,000,000,
	// by default 10,000. If the workers allow fewer, requests shrink
	// automatically.
	MaxBatch int64
}

// maxPrefetched is the upper bound of Limit and MaxBatch.
const maxPrefetched = 1_000_000_000

// withDefaults replaces zero values with the defaults, and checks the bounds.
// The error wraps [ErrPrefetch].
func (cfg PrefetchConfig) withDefaults() (PrefetchConfig, error) {
	if cfg.Runway == 0 {
		cfg.Runway = time.Second
	}
	if cfg.Limit == 0 {
		cfg.Limit = 1_000_000
	}
	if cfg.MaxBatch == 0 {
		cfg.MaxBatch = 10_000
	}
	if cfg.Runway < time.Millisecond || cfg.Runway > time.Hour {
		return cfg, fmt.Errorf("%w: Runway %v, allowed is 1ms to 1h", ErrPrefetch, cfg.Runway)
	}
	if cfg.Limit < 1 || cfg.Limit > maxPrefetched {
		return cfg, fmt.Errorf("%w: Limit %d, allowed is 1 to %d", ErrPrefetch, cfg.Limit, maxPrefetched)
	}
	if cfg.MaxBatch < 1 || cfg.MaxBatch > maxPrefetched {
		return cfg, fmt.Errorf("%w: MaxBatch %d, allowed is 1 to %d", ErrPrefetch, cfg.MaxBatch, maxPrefetched)
	}
	return cfg, nil
}
