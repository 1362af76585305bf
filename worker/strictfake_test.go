package worker

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/ownership"
	"github.com/idworker/idworker/internal/tagrules"
)

// idleStrict is the part of a worker that has no strict tags.
func idleStrict() *strict {
	p := processInfo{cfg: Config{}.WithDefaults(), rules: tagrules.NewWatcher(nil, "", zap.NewNop())}
	s := newStrict(p, nil, nil)
	s.owners = new(fakeOwners)
	return s
}

// fakeOwners says what the test says, the same of all slots.
type fakeOwners struct {
	mu    sync.Mutex
	owner string
	epoch uint64 // of this process, 0: none
	dead  bool   // its lease has run out
	wants int

	leases []ownership.Lease // not changed once the worker is asked
}

func (f *fakeOwners) set(owner string, epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner, f.epoch = owner, epoch
}

func (f *fakeOwners) Start(context.Context) error { return nil }
func (f *fakeOwners) Stop(context.Context) error  { return nil }
func (f *fakeOwners) RulesChanged()               {}
func (f *fakeOwners) Leases() []ownership.Lease   { return f.leases }

func (f *fakeOwners) Want(int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wants++
}

func (f *fakeOwners) Owner(int) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner, f.owner != ""
}

func (f *fakeOwners) Term(int) (uint64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.epoch, f.epoch != 0
}

func (f *fakeOwners) Valid(_ int, epoch uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.dead && f.epoch == epoch
}

func (f *fakeOwners) setDead(dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = dead
}

func (f *fakeOwners) wanted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wants
}
