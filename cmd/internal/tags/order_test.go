package tags_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/ownership"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

const many = 1_000_000

// answersPing has a process answer that it is there, times often at most.
func (i installation) answersPing(instance string, times int) {
	i.Helper()
	data, err := json.Marshal(micro.Ping{ServiceIdentity: micro.ServiceIdentity{
		Name: worker.ServiceName, Metadata: map[string]string{"prefix": string(prefix), "instance": instance},
	}})
	must(i.T, err)
	sub, err := i.js.Conn().Subscribe("$SRV.PING."+worker.ServiceName, func(m *nats.Msg) { _ = m.Respond(data) })
	must(i.T, err)
	must(i.T, sub.AutoUnsubscribe(times))
	i.Cleanup(func() { _ = sub.Unsubscribe() }) // it may have ended by itself
}

// TestStoppingIsNotOld: a worker that answered while it stopped, and has no lease by now, is not taken for one
// of an older version; one that goes on answering without a lease is.
func TestStoppingIsNotOld(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.answersPing("STOPPING", 1)
	if err := i.tags.CreateStrict(t.Context(), store.Tag{Name: "order", Step: 1, Next: 1}); err != nil {
		t.Error(err)
	}
	i.answersPing("OLD", many)
	tries := 0
	natstest.Eventually(t, "refused beside a worker without a lease", func() bool { // it answered in time
		tries++
		err := i.tags.CreateStrict(t.Context(), store.Tag{Name: fmt.Sprint("invoice", tries), Step: 1, Next: 1})
		return errors.Is(err, tags.ErrNotCreated) && strings.Contains(err.Error(), "of an older version, which knows no order: OLD")
	})
}

// TestLapsedIsNotOld: a worker that lives, and whose lease lapsed while it was slow,
// gets the time to have another one.
func TestLapsedIsNotOld(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.answersPing("ENDED", many)
	i.answersPing("NONE", many)
	i.putLease(0, "ENDED", "lost")
	i.tags.Patient(func() {
		i.putLease(0, "ENDED", "")
		i.putLease(1, "NONE", "")
	})
	must(t, i.tags.Orders.AwaitAll(t.Context(), 0))
}

// TestEndedOnce: a process that is not heard of is named with its host and the time, and once an operator has said
// that it has ended, the next strict tag does not ask again.
func TestEndedOnce(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.putLease(0, "CRASHED", "lost")
	i.putLease(1, "RUNNING", "")
	create := func(tag string) error {
		return i.tags.CreateStrict(t.Context(), store.Tag{Name: tag, Step: 1, Next: 1})
	}
	if err := create("a"); !errors.Is(err, tags.ErrNotCreated) || !strings.Contains(err.Error(), "not heard of, perhaps paused: CRASHED (host h, last heard of at 20") {
		t.Errorf("%v", err)
	}
	ended := func(instance string) error { return i.tags.Orders.DeclareEnded(t.Context(), []string{instance}) }
	if err := ended("bogus"); !errors.Is(err, tags.ErrNotEnded) {
		t.Errorf("bogus has ended: %v", err)
	}
	i.answersPing("RUNNING", many)
	natstest.Eventually(t, "refused of a process that answers", func() bool { return errors.Is(ended("RUNNING"), tags.ErrNotEnded) })
	for range 2 {
		must(t, ended("CRASHED"))
	}
	if err := i.tags.Orders.AwaitAll(t.Context(), 0); err != nil {
		t.Error(err)
	}
	again := i.reopen()
	if err := again.Orders.AwaitAll(t.Context(), 0); err != nil {
		t.Errorf("the next command: %v", err)
	}
}

// TestCrashedAlone: nobody ends the lease of the only worker when it has crashed, and it is called silent all the
// same. Nothing is left of the tag that was not created.
func TestCrashedAlone(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.putLease(0, "ALONE", "")
	err := i.tags.Impatient(true).CreateStrict(t.Context(), store.Tag{Name: "order", Step: 1, Next: 1})
	if err == nil || !strings.Contains(err.Error(), "perhaps paused: ALONE") {
		t.Errorf("%v", err)
	}
	rules, err := i.tags.Orders.Rules(t.Context())
	must(t, err)
	if order, found := rules.Own("order"); found {
		t.Errorf("the tag has an order of its own, %s", order)
	}
}

// TestActedUponOlderRules: a process says up to which revision it has acted. If that is later than the latest one
// there is, the rules were restored to an older state, and the process has not read those that were written since.
func TestActedUponOlderRules(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("order 10 1\n"))
	later := i.latestRule() + 1000
	i.joinAs(func() uint64 { return later })
	if err := i.impatient().tags.SetOrder(t.Context(), "order", tagrules.Strict); !errors.Is(err, tags.ErrNotActed) {
		t.Errorf("%v, want ErrNotActed", err)
	}
}

// putLease writes a lease as a process has it.
func (i installation) putLease(place int, instance, ended string) {
	i.Helper()
	kv, _, err := resource.OpenBucket(i.Context(), i.js, ownership.BucketName(prefix))
	must(i.T, err)
	value := map[string]any{"life": 1, "instance": instance, "host": "h", "term_ms": time.Second.Milliseconds(), "ended": ended, "write": "w"}
	data, err := json.Marshal(value)
	must(i.T, err)
	_, err = kv.Put(i.Context(), fmt.Sprint("lease.", place), data)
	must(i.T, err)
}

// reopen opens the tags once more, as the next command does.
func (i installation) reopen() *tags.Tags {
	i.Helper()
	again, err := tags.Open(i.Context(), i.js, prefix, i.source)
	must(i.T, err)
	i.Cleanup(again.Close)
	again.Patient(func() {})
	return again
}

// TestStrictForAllWhoCreateIt: where several create a strict tag at the same time, one does, and those who come too
// late leave it strict.
func TestStrictForAllWhoCreateIt(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	const racers = 4
	errs := make(chan error, racers)
	for range racers {
		other := i.reopen()
		go func() { errs <- other.CreateStrict(t.Context(), store.Tag{Name: "order", Step: 1, Next: 1}) }()
	}
	created := 0
	for range racers {
		switch err := <-errs; {
		case err == nil:
			created++
		case !errors.Is(err, store.ErrTagExists):
			t.Error(err)
		}
	}
	rules, err := i.tags.Orders.Rules(t.Context())
	must(t, err)
	if order, own := rules.Own("order"); created != 1 || order != tagrules.Strict || !own {
		t.Errorf("%d were told that they created it, and its order is %q", created, order)
	}
}
