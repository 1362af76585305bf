package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// Holding is what the buckets say about a worker ID that is leased or once was.
type Holding struct {
	Datacenter, Worker int64

	// Reserved is the moment up to which the worker ID's time is given away; zero if
	// that is unknown.
	Reserved time.Time

	// The rest is empty if nobody leases the worker ID.
	Instance  string
	Host      string
	Since     time.Time     // by the holder's clock
	Heartbeat time.Time     // the last one, by the server's clock
	ClockDiff time.Duration // how far the holder's clock was ahead of the server's then

	Installation string // the holder's; empty too if its version does not say it
}

// Held reports whether somebody leases the worker ID.
func (h Holding) Held() bool { return !h.Heartbeat.IsZero() }

// List returns all worker IDs that are leased or once were, in order, and the layout
// that they are for, which is zero if there has been no worker yet. Entries that cannot
// be read do not hide the others: List returns those as well as an error.
func List(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) ([]Holding, snowflake.Layout, error) {
	text, err := InstalledLayout(ctx, js, prefix)
	if text == "" || err != nil {
		return nil, snowflake.Layout{}, err
	}
	layout, err := snowflake.ParseLayout(text)
	if err != nil {
		return nil, snowflake.Layout{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	leases, err := listBucket(ctx, js, WorkersBucketName(prefix))
	if err != nil {
		return nil, layout, err
	}
	clocks, err := listBucket(ctx, js, ClockBucketName(prefix))
	if err != nil {
		return nil, layout, err
	}
	holdings, err := joinRecords(layout, leases, clocks)
	return holdings, layout, err
}

// joinRecords makes one list of the records of both buckets.
func joinRecords(l snowflake.Layout, leases, clocks []record) ([]Holding, error) {
	all := make(map[string]*Holding)
	var broken []error
	at := func(r record) *Holding {
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
		if r.key == identityKey {
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

// InstalledLayout returns the layout that the config bucket names; it is empty if there
// has been no worker yet. Errors: jetstream.ErrBucketNotFound.
func InstalledLayout(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (string, error) {
	config, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return "", err
	}
	layout, _, err := config.Find(ctx, layoutKey)
	return layout, err
}
