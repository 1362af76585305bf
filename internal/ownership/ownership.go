package ownership

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// Slots is how many slots there are. It is the same in all processes, for ever.
const Slots = 256

// Slot returns the slot of a tag, 0 to Slots−1. It is the same in all processes, for ever.
func Slot(tag string) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(tag) {
		h = (h ^ uint32(tag[i])) * 16777619
	}
	h ^= h >> 16
	return int((h ^ h>>8) % Slots)
}

// DefaultLeaseTime is T.
const DefaultLeaseTime = 4 * time.Second

// Config of an [Ownership].
//
// The functions are called from goroutines of the Ownership, Began and Ended one at a time. They
// must return soon: leases are not renewed for less, but slots change hands only once they
// have returned. They may call Owner, Term, Valid and Want, but not Stop.
type Config struct {
	JS     jetstream.JetStream
	Prefix messages.Prefix

	// Instance names this process; Owner returns it in other processes.
	Instance string

	// Installation is the ID of the installation that the process belongs to. It only informs
	// those who look at the leases.
	Installation string

	// Host is that of the process. It only informs those who look at the leases.
	Host string

	// LeaseTime is T, DefaultLeaseTime if 0. Processes may have different ones.
	LeaseTime time.Duration

	// Rules returns the revision of the rules that this process has acted upon. It is written
	// into the lease with each renewal, and at once after [Ownership.RulesChanged].
	Rules func() uint64

	// Strict reports whether any tag is strict, or may come into being strict, by the rules that this
	// process has acted upon. While none is, the process owns nothing and renews its lease rarely. Whenever
	// that changes, [Ownership.RulesChanged] has to be called. If Strict is nil, there always is one.
	Strict func() bool

	// Began says that this process is about to be the owner of a slot: the write that made it so
	// is known to be done. Term and Valid know of it once Began has returned. So whatever is left
	// of earlier terms has to be dropped by then, and what was asked for earlier be forgotten.
	Began func(slot int, epoch uint64)

	// Ended says that a term has ended: Term and Valid know of it already. Each Began is followed
	// by one Ended, before the next Began of the slot, and at the latest by the end of Stop.
	Ended func(slot int, epoch uint64)

	// Changed says that Owner or Term may return something else for a slot than before, or that Valid,
	// which was false for the present term, is true again: parked requests should look again.
	Changed func(slot int)

	Log *zap.Logger
}

// Lease is the lease of a process, as the bucket shows it.
type Lease struct {
	Instance     string
	Host         string
	Installation string

	// Rules is the revision of the rules that the process has acted upon.
	Rules uint64

	// Lost is true if others have ended the lease because the process did not renew it. Nothing
	// more is known: it may have crashed, or be paused, or be cut off from JetStream and alive.
	Lost bool

	// Gone is true if Lost is, and [DeclareEnded] has said what became of the process.
	Gone bool

	// Heard is about when the lease was renewed last, by the server's clock. Only [ReadLeases] knows.
	Heard time.Time

	place    int
	sighting sighting
}

// Ownership is one process's part in sharing out the slots.
type Ownership struct {
	running
	cfg      Config
	log      *zap.Logger
	bucket   bucket
	now      clock
	validFor time.Duration // how long the start of a renewal lets this process answer
	terms    terms
	owners   [Slots]atomic.Pointer[string] // instances, as far as the bucket was read
	wanted   [Slots]atomic.Bool
	fed      atomic.Uint64 // up to which revision the feed has come

	mu    sync.Mutex
	state // under mu
}

// state is what an Ownership knows and does.
type state struct {
	view     *view
	since    int64 // when the view's bucket was read first
	rests    bool  // as this process's lease says
	agreed   bool  // the bucket is the one that the installation had first
	life     *life // nil while there is no lease
	former   leaseID
	acts     acts
	listed   *event // the bucket has been read, since the last lease was over
	stopFeed context.CancelFunc

	activeSince int64 // since when this process does not rest, or has this lease
}

// Open opens the bucket, which has to exist and to be safe, see [Bucket].
//
// Errors: jetstream.ErrBucketNotFound, durability.ErrUnsafe; anything else means that JetStream
// is away.
func Open(ctx context.Context, cfg Config) (*Ownership, error) {
	kv, _, err := resource.OpenBucket(ctx, cfg.JS, BucketName(cfg.Prefix))
	if err != nil {
		return nil, err
	}
	return newOwnership(cfg, kvBucket{cfg.JS, kv, cfg.Prefix}, systemClock()), nil
}

func newOwnership(cfg Config, b bucket, now clock) *Ownership {
	cfg = cfg.withDefaults()
	o := &Ownership{
		running:  running{ready: newEvent(), nudged: make(chan struct{}, 1), rules: make(chan struct{}, 1)},
		cfg:      cfg,
		log:      cfg.Log,
		bucket:   b,
		now:      now,
		validFor: validity(cfg.LeaseTime),
		state:    state{view: newView(), listed: newEvent(), acts: acts{places: make(map[int]try), shunned: make(map[leaseID]int64)}},
	}
	o.terms.now, o.terms.began, o.terms.ended = now, cfg.Began, cfg.Ended
	return o
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	c.LeaseTime = cmp.Or(c.LeaseTime.Truncate(time.Millisecond), DefaultLeaseTime) // as the lease says it
	if c.Rules == nil {
		c.Rules = func() uint64 { return 0 }
	}
	if c.Strict == nil {
		c.Strict = func() bool { return true }
	}
	if c.Began == nil {
		c.Began = func(int, uint64) {}
	}
	if c.Ended == nil {
		c.Ended = func(int, uint64) {}
	}
	if c.Changed == nil {
		c.Changed = func(int) {}
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Want says that somebody asks for a slot. If it has no owner, this process will be the owner, or
// another one; Changed says so. Calling it again does nothing, and costs nothing. It is forgotten while
// no tag is strict.
func (o *Ownership) Want(slot int) {
	if !o.wanted[slot].Load() && !o.wanted[slot].Swap(true) {
		o.nudge()
	}
}

// Owner returns the instance of the process that owns a slot, according to the bucket as far as
// it was read. It may be this process, while it has no term yet.
func (o *Ownership) Owner(slot int) (instance string, known bool) {
	if p := o.owners[slot].Load(); p != nil {
		return *p, true
	}
	return "", false
}

// Term returns the epoch for which this process owns a slot. That does not suffice to answer, see
// Valid; but if ok is false, Valid will be false, too, until Changed says otherwise.
func (o *Ownership) Term(slot int) (epoch uint64, ok bool) { return o.terms.term(slot) }

// Valid reports whether this process may answer for a slot. A request is answered in this order:
// Term, then the ID is taken, then Valid with the epoch of that term, then the reply is sent. If it
// is false, the ID must not be used. It takes no lock and no memory, and reads a clock.
func (o *Ownership) Valid(slot int, epoch uint64) bool { return o.terms.valid(slot, epoch) }

// HandOver hands a slot over to another living process, if this process owns it and there is one.
// It reports whether it is about to. Slots are shared out without it; it is for tests.
func (o *Ownership) HandOver(slot int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	epoch := o.terms.epochs[slot].Load()
	if epoch == 0 || o.view.slots[slot].Epoch != epoch || !o.anotherIsActive() {
		return false
	}
	o.acts.forced[slot] = true
	o.nudge()
	return true
}

// anotherIsActive reports whether another process is alive, and does not rest.
func (o *Ownership) anotherIsActive() bool {
	for place, s := range o.view.leases {
		if s.Ended == "" && !s.rests() && place != o.former.Place {
			return true
		}
	}
	return false
}

// RulesChanged says that Rules returns another revision: it is written at once. So does whether any tag
// is strict.
func (o *Ownership) RulesChanged() {
	o.renewNow()
	o.nudge()
}

// renewNow has the lease renewed at once.
func (o *Ownership) renewNow() {
	select {
	case o.rules <- struct{}{}:
	default:
	}
}

// Leases returns the leases that the bucket shows, as far as it was read: those of living
// processes, and those that others have ended. A process that ended its own is not among them.
func (o *Ownership) Leases() []Lease {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.view.list()
}
