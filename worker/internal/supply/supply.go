package supply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/loadmsg"
)

// Requester must be the type of [allocator.Request.From]: it gets the reply to
// a parked request. The loop calls Reply once, so it must not block.
type Requester interface {
	Reply(ids []store.Segment, err error)
}

// Config configures a Supply. All fields but Own must be set.
type Config struct {
	Prefix messages.Prefix
	// names the process, in loads and as the address of grants
	Instance     string
	Installation string
	Control      *nats.Conn
	JS           jetstream.JetStream // over Control
	MaxStep      int64               // the ceiling of a segment, in IDs
	Wait         time.Duration       // the time a request is parked, at most
	// Own hands an event to the process's own loader, which answers with a grant
	// as other loaders do; or it returns false, and another loader must serve the
	// load. It must not block. It is nil if the process is no loader.
	Own     func(loadmsg.Event) bool
	Foreign *loadmsg.Foreign
	Log     *zap.Logger
}

// Supply keeps an allocator supplied with segments. Its methods are safe for
// concurrent use; Start and Stop are called once.
type Supply struct {
	cfg        Config
	alloc      *allocator.Allocator
	goroutines *goroutines.Group
	learned    atomic.Int64         // a floor that the allocator has learned; it may have learned a higher one
	voided     atomic.Int64         // the floor of the latest decision about another installation
	stopped    <-chan struct{}      // closed by Stop
	subs       []*nats.Subscription // from Start on

	seeing sync.Mutex
	seen   store.Line // see Position

	grants    chan loadmsg.Grant
	published chan publication
	loaders   chan LoaderState

	// The loop owns these, unless noted otherwise.
	unanswered unanswered
	away       time.Time // when the load stream last failed; zero if it works
	counts     grantCounts
}

// New returns a Supply whose allocator has no tags.
func New(cfg Config) *Supply {
	began, group := time.Now(), goroutines.New()
	return &Supply{
		cfg: cfg,
		alloc: allocator.New(allocator.Config{
			Clock:   func() time.Duration { return time.Since(began) },
			MaxStep: cfg.MaxStep,
			Wait:    cfg.Wait,
		}),
		goroutines: group,
		stopped:    group.Context().Done(),
		grants:     make(chan loadmsg.Grant),
		published:  make(chan publication),
		loaders:    make(chan LoaderState),
		unanswered: unanswered{log: cfg.Log},
	}
}

// Allocator returns the supplied allocator. Requests that park in it must have
// a [Requester] as From.
func (s *Supply) Allocator() *allocator.Allocator { return s.alloc }

// startTimeout bounds the server's confirmation of the subscriptions.
const startTimeout = 10 * time.Second

// Start returns when grants can reach the process. After an error, the supply
// has stopped.
func (s *Supply) Start(ctx context.Context) error {
	err := errors.Join(
		s.subscribe(loadmsg.GrantSubject(s.cfg.Prefix, s.cfg.Instance), s.receive),
		s.subscribe(loadmsg.DropSubject(s.cfg.Prefix), func(m *nats.Msg) { s.alloc.Remove(string(m.Data)) }))
	if err == nil {
		err = flush(ctx, s.cfg.Control)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("subscribe to grants: %w", err), s.Stop())
	}
	s.goroutines.Start(s.run)
	s.goroutines.Start(s.dropIdle)
	return nil
}

func (s *Supply) subscribe(subject string, handle nats.MsgHandler) error {
	sub, err := s.cfg.Control.Subscribe(subject, handle)
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}

func flush(ctx context.Context, conn *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return conn.FlushWithContext(ctx)
}

// Stop ends the supply, and returns when all due replies are sent. Later grants
// are discarded.
func (s *Supply) Stop() (err error) {
	for _, sub := range s.subs {
		if e := sub.Unsubscribe(); !errors.Is(e, nats.ErrConnectionClosed) {
			err = errors.Join(err, e)
		}
	}
	s.goroutines.Stop()
	s.reply()
	return err
}

// ticksPerWait is the precision of deadlines, as a fraction of Config.Wait.
const ticksPerWait = 40

// run is the loop. It handles one event at a time, and its consequences.
func (s *Supply) run(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Wait / ticksPerWait)
	defer tick.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for ready := s.alloc.Ready(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ready:
		case g := <-s.grants:
			s.handle(g)
		case p := <-s.published:
			s.conclude(p)
		case <-tick.C:
			s.alloc.Tick()
		case <-second.C:
			if s.unanswered.look(time.Now(), s.alloc.Loading(), s.cfg.Control.IsConnected()) {
				s.lookForLoaders(s.unanswered.latest)
			}
		case state := <-s.loaders:
			s.unanswered.found(state, s.alloc.Loading())
		}
		s.reply()
		for l, ok := s.alloc.Send(); ok; l, ok = s.alloc.Send() {
			s.send(l)
		}
	}
}

// reply sends the replies that are due.
func (s *Supply) reply() {
	for _, r := range s.alloc.Replies() {
		r.From.(Requester).Reply(r.IDs, r.Err)
	}
}

// send sends a load to a loader: as an event in the load stream, or directly.
func (s *Supply) send(l allocator.Load) {
	seen := s.Position()
	event := loadmsg.Event{
		Instance: s.cfg.Instance, Tag: l.Tag, Step: l.Step, Unknown: l.First, Want: l.Want, TrendOnly: l.TrendOnly, Seq: l.Seq,
		Runway: max(1, l.Runway.Milliseconds()), Installation: s.cfg.Installation,
		Floor: seen.Floor, Sequence: seen.Sequence, Next: l.Next,
	}
	s.unanswered.requested(time.Now(), event)
	if !l.Direct && s.publish(event) || s.cfg.Own != nil && s.cfg.Own(event) {
		return
	}
	// If it is lost, the allocator returns the load again.
	_ = s.cfg.Control.Publish(loadmsg.ReserveSubject(s.cfg.Prefix), event.Encode())
}

// publishTimeout bounds a publication to the load stream. After a failure, the
// stream is not used for the same time.
const publishTimeout = time.Second

// publication is the outcome of a publication of a load's event.
type publication struct {
	tag string
	seq uint64
	err error
}

// publish starts to publish an event to the load stream. It returns false if
// the stream is unavailable. Once a second it publishes an event anyway, to
// detect the stream's return.
func (s *Supply) publish(event loadmsg.Event) bool {
	if !s.away.IsZero() {
		if time.Since(s.away) < publishTimeout {
			return false
		}
		s.away = time.Now()
	}
	return s.goroutines.Start(func(ctx context.Context) {
		timed, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		_, err := s.cfg.JS.Publish(timed, loadmsg.Subject(s.cfg.Prefix, s.cfg.Instance, event.Tag), event.Encode(), jetstream.WithRetryAttempts(0))
		select {
		case s.published <- publication{event.Tag, event.Seq, err}:
		case <-ctx.Done():
		}
	})
}

// conclude handles the outcome of a publication. An event that the stream did
// not accept goes directly to a loader, unless the stream holds an event of the
// same tag: that answer proves that the stream is available.
func (s *Supply) conclude(p publication) {
	queued := isQueued(p.err)
	if (p.err == nil || queued) && !s.away.IsZero() {
		s.away = time.Time{}
		s.cfg.Log.Info("load stream available again")
	}
	switch {
	case p.err == nil:
	case queued:
		s.alloc.Answer(p.tag, p.seq, allocator.Answer{Later: allocator.Queued})
	default:
		if s.away.IsZero() {
			s.cfg.Log.Warn("load stream unavailable, loading directly", zap.Error(p.err))
		}
		s.away = time.Now()
		s.alloc.Answer(p.tag, p.seq, allocator.Answer{Later: allocator.NotSent})
	}
}

// The server's answer to a second message on a subject of the load stream. The
// code covers all reasons for not storing a message, such as a full stream.
// Only the text distinguishes them.
const (
	storeFailed   jetstream.ErrorCode = 10077
	maxPerSubject                     = "maximum messages per subject exceeded"
)

// isQueued reports whether the stream refused an event because it holds an
// event of the same worker and tag.
func isQueued(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == storeFailed && refused.Description == maxPerSubject
}

// idleEvery is the interval that allocator.DropIdle is made for.
const idleEvery = time.Minute

// dropIdle drops idle tags. It visits all tags, so the loop does not wait for
// it.
func (s *Supply) dropIdle(ctx context.Context) {
	ticker := time.NewTicker(idleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.alloc.DropIdle()
		}
	}
}

// Drop makes the reachable workers of an installation drop the buffer of a tag.
func Drop(ctx context.Context, conn *nats.Conn, p messages.Prefix, tag string) error {
	if err := messages.CheckTag(tag); err != nil {
		return err
	}
	if err := conn.Publish(loadmsg.DropSubject(p), []byte(tag)); err != nil {
		return err
	}
	return flush(ctx, conn)
}

// Rights returns the rights that a role needs for this package.
func Rights(p messages.Prefix, role rights.Duty) rights.Rights {
	switch role {
	case rights.Worker:
		return rights.Join(
			rights.Publish(loadmsg.Subject(p, "*", ">"), loadmsg.ReserveSubject(p)),
			rights.Subscribe(loadmsg.GrantSubject(p, "*"), loadmsg.DropSubject(p)))
	case rights.Admin:
		return rights.Publish(loadmsg.DropSubject(p))
	}
	return rights.Rights{}
}

// grantCounts counts the outcomes of grants. The loop counts, and any goroutine
// may read.
type grantCounts struct {
	installed, burnt, below, refused atomic.Int64
}

// receive hands a message on the process's grant subject to the loop, if it is
// a grant for this process.
func (s *Supply) receive(msg *nats.Msg) {
	grant, err := loadmsg.DecodeGrant(msg.Data)
	if err != nil {
		s.cfg.Log.Warn("grant ignored", zap.Error(err))
		return
	}
	if grant.Instance != s.cfg.Instance {
		s.cfg.Log.Warn("grant for another process ignored", zap.String("instance", grant.Instance))
		return
	}
	if s.cfg.Foreign.Drop(loadmsg.GrantMessage, grant.Installation, "") {
		return
	}
	select {
	case s.grants <- grant:
	case <-s.stopped:
	}
}

// Learn takes in the floor of a decision: what was granted before it is dropped.
// Callers may pass the same floor again.
func (s *Supply) Learn(floor int64) {
	before := s.alloc.Floor()
	if s.alloc.Learn(floor) && before > 0 { // the first is learned before anything is granted
		s.cfg.Log.Warn("tags were raised; segments from before are dropped", zap.Int64("floor", floor), zap.Int64("before", before))
	}
	s.learned.Store(max(floor, s.learned.Load()))
	s.see(store.Line{Floor: floor})
}

// see takes in a position of the register.
func (s *Supply) see(line store.Line) {
	s.seeing.Lock()
	defer s.seeing.Unlock()
	switch {
	case line.Floor > s.seen.Floor:
		s.seen = line
	case line.Floor == s.seen.Floor:
		s.seen.Sequence = max(s.seen.Sequence, line.Sequence)
	}
}

// Position is the floor of the latest decision that the worker has learned, and
// the highest sequence of the register that a grant under it has shown, whether it
// was used or not. The floor is 0 before the first.
func (s *Supply) Position() store.Line {
	s.seeing.Lock()
	defer s.seeing.Unlock()
	return s.seen
}

// Void drops everything, after a decision with that floor about another
// installation.
func (s *Supply) Void(floor int64) {
	s.alloc.Void()
	s.voided.Store(floor)
}

// Floor is the highest floor of a decision before which nothing that is held was
// granted; 0 before the first.
func (s *Supply) Floor() int64 { return max(s.alloc.Floor(), s.voided.Load()) }

// handle hands a loader's answer to the allocator.
func (s *Supply) handle(g loadmsg.Grant) {
	if g.Floor > s.learned.Load() { // each grant comes here
		s.Learn(g.Floor)
	}
	s.see(store.Line{Floor: g.Floor, Sequence: g.Sequence})
	s.unanswered.answered(time.Now(), g)
	switch {
	case g.NotNow == loadmsg.NotNowStore:
		s.alloc.Answer(g.Tag, g.Seq, allocator.Answer{Later: allocator.StoreFails})
	case g.NotNow == loadmsg.NotNowTag:
		s.alloc.Answer(g.Tag, g.Seq, allocator.Answer{Later: allocator.TagFails})
	case g.Refused != 0:
		s.refuse(g)
	default:
		s.install(g)
	}
}

// refuse passes a loader's refusal to the allocator.
func (s *Supply) refuse(g loadmsg.Grant) {
	s.counts.refused.Add(1)
	var err error
	switch g.Refused {
	case messages.CodeNoTag:
		err = store.ErrNoTag
	case messages.CodeStrict:
		err = store.ErrStrict
	case messages.CodeExhausted:
		err = store.ErrExhausted
	case messages.CodeBusy:
		err = &messages.Error{Code: messages.CodeBusy, Text: cmp.Or(g.Reason, "no new tags"), FullTemplate: g.FullTemplate}
	default:
		err = fmt.Errorf("cannot grant the tag: %s", cmp.Or(g.Reason, "no reason given"))
	}
	if g.Pause > 0 {
		s.alloc.RefuseUnknown(err, time.Duration(g.Pause)*time.Millisecond)
	}
	s.alloc.Answer(g.Tag, g.Seq, allocator.Answer{Refused: err})
}

// install passes a granted segment to the allocator.
func (s *Supply) install(g loadmsg.Grant) {
	// A loader that decides the size may have a larger maximum.
	segment, _ := store.Segment{First: g.First, End: g.End}.Cut(min(g.End-g.First, s.cfg.MaxStep))
	verdict := s.alloc.Answer(g.Tag, g.Seq, allocator.Answer{
		Segment: segment, Step: g.Step, Order: g.Order, Line: store.Line{Floor: g.Floor, Sequence: g.Sequence}, Loader: g.Loader,
	})
	switch verdict.Outcome {
	case allocator.Used:
		s.counts.installed.Add(1)
		return
	case allocator.Below:
		s.counts.below.Add(1)
		if verdict.FirstBelow {
			s.cfg.Log.Error("store regressed, range discarded",
				zap.String("tag", g.Tag), zap.Stringer("segment", segment), zap.Int64("floor", g.Floor), zap.String("loader", g.Loader), zap.Uint64("sequence", g.Sequence),
				zap.Int64("granted up to", verdict.Above), zap.Int64("under floor", s.alloc.Floor()), zap.String("by loader", verdict.By), zap.Uint64("at sequence", verdict.Sequence))
		}
	case allocator.OtherOrder:
		s.counts.burnt.Add(1)
		s.cfg.Log.Error("tag changed order, buffer discarded",
			zap.String("tag", g.Tag), zap.String("order", string(g.Order)))
	default:
		s.counts.burnt.Add(1)
	}
	s.cfg.Log.Debug("segment discarded", zap.String("tag", g.Tag), zap.Stringer("segment", segment))
}
