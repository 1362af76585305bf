package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store/agreement"
)

// Holding is the state of a worker ID that is leased or has been.
type Holding struct {
	Datacenter, Worker int64

	// Reserved is the end of the worker ID's reserved time; zero if unknown.
	Reserved time.Time

	// The rest is empty if the worker ID is not leased.
	Instance  string
	Host      string
	Since     time.Time // by the holder's clock
	Heartbeat time.Time // the latest, by the server's clock
	// The lead of the holder's clock over the server's then.
	ClockDiff time.Duration

	Installation string // the holder's; may be empty
}

// Held reports whether the worker ID is leased.
func (h Holding) Held() bool { return !h.Heartbeat.IsZero() }

// List returns all worker IDs that are leased or have been, in order, and their
// layout, which is zero if there has been no worker yet. Unreadable entries do
// not hide the others: List returns these with an error.
func List(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, way kv.Way) ([]Holding, snowflake.Layout, error) {
	text, err := InstalledLayout(ctx, js, prefix)
	if text == "" || err != nil {
		return nil, snowflake.Layout{}, err
	}
	layout, err := snowflake.ParseLayout(text)
	if err != nil {
		return nil, snowflake.Layout{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	leases, err := listBucket(ctx, js, WorkersBucketName(prefix), way)
	if err != nil {
		return nil, layout, err
	}
	clocks, err := listBucket(ctx, js, ClockBucketName(prefix), way)
	if err != nil {
		return nil, layout, err
	}
	holdings, err := joinEntries(layout, leases, clocks)
	return holdings, layout, err
}

// joinEntries merges the entries of both buckets.
func joinEntries(l snowflake.Layout, leases, clocks []bucketEntry) ([]Holding, error) {
	all := make(map[string]*Holding)
	var broken []error
	at := func(r bucketEntry) *Holding {
		datacenter, worker, ok := parseKey(l, r.key)
		if !ok {
			broken = append(broken, corrupt(r))
			return &Holding{}
		}
		if all[r.key] == nil {
			all[r.key] = &Holding{Datacenter: datacenter, Worker: worker}
		}
		return all[r.key]
	}
	for _, r := range leases {
		if r.deleted {
			continue
		}
		h := at(r)
		h.Heartbeat = r.created
		e, err := decodeLease(r)
		if err != nil {
			broken = append(broken, err)
			continue
		}
		h.Instance, h.Host, h.Since, h.Installation = e.Instance, e.Host, e.Since, e.Installation
		h.ClockDiff = time.UnixMilli(e.Clock).Sub(r.created)
	}
	for _, r := range clocks {
		if r.key == identityKey || r.key == lostKey {
			continue
		}
		h := at(r)
		e, err := decodeClock(r)
		if err != nil {
			broken = append(broken, err)
			continue
		}
		h.Reserved = l.TimeAt(e.Hi)
	}
	holdings := make([]Holding, 0, len(all))
	for _, h := range all {
		holdings = append(holdings, *h)
	}
	slices.SortFunc(holdings, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(a.Datacenter, b.Datacenter), cmp.Compare(a.Worker, b.Worker))
	})
	return holdings, errors.Join(broken...)
}

// InstalledLayout returns the layout that the config bucket names; it is empty
// if there has been no worker yet. Errors: jetstream.ErrBucketNotFound.
func InstalledLayout(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (string, error) {
	config, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return "", err
	}
	layout, _, err := config.Find(ctx, LayoutKey)
	return layout, err
}
