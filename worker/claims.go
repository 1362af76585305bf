package worker

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/loadmsg"
)

// asker exchanges claims about the register with other processes, see
// [store.Claim].
//
// A loader alone does not detect that a register went back while the loader was not
// running, or was cut off. So whenever its store requires it, the loader asks all
// others before it grants. It sends the request that status pages send, because
// the rights of version 0.2.0 allow that one. Nobody has to answer: only a claim
// that is above the register changes anything. The inbox stays open, because a
// process that was frozen answers late. Each claim goes to the store at once, and
// none is kept here.
//
// A process whose connection was lost may have missed the question, so it publishes
// its claims to all loaders once the connection is back. A loader that has stopped
// publishes them, too, and repeats that for loaders that start later.
type asker struct {
	conn   *nats.Conn // for control
	prefix messages.Prefix
	self   ProcessIdentity
	timing timing
	log    *zap.Logger

	claims func() []store.Claim
	// The store checks what others claim. It is nil if the process is no loader.
	store store.Reserver
	alone atomic.Bool // the process has begun the installation, and not asked yet

	background *goroutines.Group
	answers    *nats.Subscription
	answered   atomic.Int64 // when the process's own answer came, in nanoseconds since 1970
	complains  rate.Sometimes

	naming sync.Mutex
	named  map[string]bool // foreign installations whose claims were ignored
}

const (
	askEvery = time.Second // while others may be reconnecting

	// maxDials bounds the servers that another process may try: many addresses can
	// be those of one server.
	maxDials = 4

	// dialTime is how long nats.go tries to reach one server.
	dialTime = nats.DefaultTimeout

	// How often a loader checks whether its store has stopped, and how often it
	// publishes its claims while it has.
	lookForStop   = time.Second
	repeatStopped = 10 * time.Second

	// maxNamed bounds the set of foreign installations.
	maxNamed = 100
)

// Start opens the inbox. It does not wait for a server.
func (a *asker) Start(context.Context) (err error) {
	if a.store != nil {
		// A new inbox: the subjects of the connection's other replies are secret.
		if a.answers, err = a.conn.Subscribe(a.conn.NewInbox(), a.receive); err != nil {
			return err
		}
		// Reports are large, and each takes a while to decode.
		if err := a.answers.SetPendingLimits(maxQueuedRequests, maxQueuedBytes); err != nil {
			return err
		}
	}
	a.background.Start(a.run)
	return nil
}

// Stop ends the exchange.
func (a *asker) Stop() (err error) {
	a.background.Stop()
	if a.answers != nil {
		err = unlessClosed(a.answers.Unsubscribe())
	}
	return err
}

// errNotAsked means that not all processes can have been asked.
var errNotAsked = errors.New("cannot ask other processes what they know of the register")

// ask asks all processes for their claims, and returns once all had the time to
// answer: also a worker that is just trying to reach one server after another. It
// is the ask of [store.Reserver.Run]. It proves nothing if the connection was lost
// meanwhile, if answers were dropped, or if the process's own answer did not come.
func (a *asker) ask(ctx context.Context) error {
	if a.alone.Swap(false) {
		return nil // no other process has seen anything
	}
	began, reconnects, dropped := time.Now(), a.conn.Stats().Reconnects, a.dropped()
	end := began.Add(time.Duration(min(len(a.conn.Servers()), maxDials))*a.timing.dial + a.timing.quiet)
	for left := time.Until(end); left > 0; left = time.Until(end) {
		if err := a.conn.PublishRequest(askSubject(micro.StatsVerb), a.answers.Subject, nil); err != nil {
			return errors.Join(errNotAsked, err)
		}
		if pause.For(ctx, min(askEvery, left)); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := a.settle(ctx); err != nil {
		return errors.Join(errNotAsked, err)
	}
	switch {
	case a.conn.Stats().Reconnects != reconnects:
		return errors.Join(errNotAsked, errors.New("the connection was lost meanwhile"))
	case a.dropped() != dropped:
		return errors.Join(errNotAsked, ErrCut)
	case a.answered.Load() < began.UnixNano():
		return errors.Join(errNotAsked, errors.New("the process's own answer is missing"))
	}
	return nil
}

// settle returns when all answers that have reached the server by now are heard.
func (a *asker) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	if err := a.conn.FlushWithContext(ctx); err != nil {
		return err
	}
	heard := make(chan struct{})
	if err := a.conn.Barrier(func() { close(heard) }); err != nil {
		return err
	}
	select {
	case <-heard:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dropped is the number of answers for which there was no room.
func (a *asker) dropped() int {
	n, _ := a.answers.Dropped() // fails only with the connection
	return n
}

// receive hears the claims in an answer.
func (a *asker) receive(msg *nats.Msg) {
	from, ok := decodeAnswer(msg.Data, a.prefix)
	if !ok {
		return // of another prefix, or not an answer
	}
	if from.process.Instance == a.self.Instance {
		a.answered.Store(time.Now().UnixNano())
		return
	}
	var report struct {
		Claims []store.Claim `json:"claims"`
	}
	if json.Unmarshal(from.data, &report) == nil {
		a.hear(from.process, loadmsg.PossibleClaims(from.process.Instance, report.Claims))
	}
}

// receiveUnasked hears the claims in a message to all loaders.
func (a *asker) receiveUnasked(data []byte) {
	m, err := loadmsg.DecodeClaims(data)
	if err != nil {
		a.complains.Do(func() { a.log.Warn("claims ignored", zap.Error(err)) })
		return
	}
	a.hear(ProcessIdentity{Instance: m.Instance, Installation: m.Installation, Created: m.Created}, m.Claims)
}

// hear hands the claims of a process to the store.
func (a *asker) hear(from ProcessIdentity, claims []store.Claim) {
	switch {
	case a.store == nil || len(claims) == 0 || from.Instance == a.self.Instance:
		return
	case !a.self.sameInstallation(from):
		a.ignore(from)
		return
	}
	for _, c := range claims {
		if c.By != a.self.Instance {
			a.store.Hear(a.background.Context(), c)
		}
	}
}

// ignore names another installation whose claims say nothing about this one.
func (a *asker) ignore(from ProcessIdentity) {
	a.naming.Lock()
	defer a.naming.Unlock()
	key := from.installation()
	if a.named[key] || len(a.named) >= maxNamed {
		return
	}
	if a.named == nil {
		a.named = make(map[string]bool)
	}
	a.named[key] = true
	a.log.Warn("claims of another installation ignored", zap.String("other", key), zap.String("own", a.self.installation()), zap.String("sender", from.Instance))
}

// run publishes the process's claims until ctx ends: when the connection is back,
// and while the store has stopped.
func (a *asker) run(ctx context.Context) {
	back := a.conn.StatusChanged(nats.CONNECTED)
	defer a.conn.RemoveStatusListener(back)
	var look <-chan time.Time
	if a.store != nil {
		ticker := time.NewTicker(lookForStop)
		defer ticker.Stop()
		look = ticker.C
	}
	var told time.Time // when others were told that the store has stopped
	for {
		select {
		case <-ctx.Done():
			return
		case <-back:
			a.publish()
		case <-look:
			switch stopped := a.store.Stopped() != nil; {
			case !stopped:
				told = time.Time{}
			case time.Since(told) >= repeatStopped:
				told = time.Now()
				a.publish()
			}
		}
	}
}

// publish sends the process's claims to all loaders. If the user lacks that right,
// as with the nats.conf of version 0.2.0, they hear only answers.
func (a *asker) publish() {
	claims := a.claims()
	if len(claims) == 0 {
		return
	}
	m := loadmsg.Claims{Instance: a.self.Instance, Installation: a.self.Installation, Created: a.self.Created, Claims: claims}
	_ = a.conn.Publish(loadmsg.LoadersSubject(a.prefix), m.Encode()) // again once the connection is back
}

// claims returns what the process has seen of the register.
func (p *Process) claims() (all []store.Claim) {
	if p.loader != nil {
		all = p.cfg.Store.Claims()
		for i := range all {
			if !all[i].Heard {
				all[i].By = p.self.Instance
			}
		}
	}
	if p.supply == nil {
		return all
	}
	if seen := p.supply.Position(); seen.Floor > 0 {
		all = append(all, store.Claim{By: p.self.Instance, Floor: seen.Floor, Sequence: seen.Sequence})
	}
	return all
}
