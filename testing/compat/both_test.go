package compat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker/history"
)

// TestWorkerAndLoaderOfTwoVersions runs workers of the old version with loaders
// of this one, and the other way round, in streams and buckets of either. Tags
// reach their last IDs, all tags are raised, and then loaders are killed with
// load events in hand. No ID comes twice, those of a strict tag ascend, and after
// the raise only workers of the old version hand out IDs of before. Every call is
// answered, and no error but the end of a tag's numbers reaches a caller.
func TestWorkerAndLoaderOfTwoVersions(t *testing.T) {
	tier.All(t)
	t.Parallel()
	source := oldSource(t)
	server := build(t, "nats-server", process.NATSServer)
	before := &version{deps.OldVersion, buildOld(t), filepath.Join(source, "nats.conf")}
	after := &version{"this", build(t, "idworker", process.Command), "../../nats.conf"}

	for _, test := range []struct{ maker, worker, loader *version }{
		{before, before, after},
		{before, after, before},
		{after, before, after},
		{after, after, before},
	} {
		t.Run(fmt.Sprintf("worker-%s-loader-%s-stream-%s", test.worker.name, test.loader.name, test.maker.name), func(t *testing.T) {
			t.Parallel()
			s := &mixedSite{busySite: newBusySite(t, server), maker: test.maker, worker: test.worker, loader: test.loader}
			s.begin()
			s.reachEnds()
			s.startPair()
			s.startCallers()
			s.awaitAnswers(2 * tagCalls) // also about new tags of the template
			s.raiseAll(after)
			s.killLoaders()
		})
	}
}

// version is a version of idworker.
type version struct {
	name, binary string
	conf         string // its nats.conf
}

// mixedSite is a site whose workers and loaders are of two versions.
type mixedSite struct {
	*busySite
	maker          *version // made the streams, the buckets and the tags
	worker, loader *version

	workers, loaders []*process.Running
	tags             int // made by newTag
}

// begin makes the site, and starts a worker and a loader.
func (s *mixedSite) begin() {
	s.useRights(s.maker.conf)
	s.restartServer()
	s.makeTags(s.maker.binary, 10)
	s.startPair()
	s.connectCallers()
}

// startPair starts another worker and another loader.
func (s *mixedSite) startPair() {
	s.workers = append(s.workers, s.serves(s.worker.binary, "worker"))
	s.loaders = append(s.loaders, s.serves(s.loader.binary, "loader"))
}

// end is the first number that no tag has.
const end = math.MaxInt64

// newTag makes a tag that has some IDs left.
func (s *mixedSite) newTag(left int64, flags string) string {
	s.tags++
	tag := fmt.Sprintf("end.%d", s.tags)
	s.administer(s.maker.binary, fmt.Sprintf("tag create %s --first %d %s", tag, end-left, flags))
	return tag
}

// left is the number of IDs that were not granted.
func (s *mixedSite) left(tag string) int64 {
	var list struct {
		Tags []struct {
			Next int64 `json:"next,string"`
		} `json:"tags"`
	}
	text := s.administer(s.maker.binary, "tag ls --json "+tag)
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Tags) != 1 {
		s.Fatalf("tag ls of %s: %s, %v", tag, text, err)
	}
	return end - list.Tags[0].Next
}

// send sends a request, once: a client that repeats it would lose IDs. The
// function that it returns awaits the reply and checks its IDs.
func (s *mixedSite) send(kind history.CallKind, tag string, n int64) (await func() error) {
	c := &history.Call{Kind: kind, Tag: tag, Count: n, Sent: time.Since(s.began)}
	replies, err := s.conn.SubscribeSync(s.conn.NewInbox())
	if err == nil {
		err = s.conn.PublishRequest(messages.DefaultPrefix.Segment(tag), replies.Subject, messages.EncodeCount(n))
	}
	return func() error {
		if err != nil {
			return err
		}
		defer func() { _ = replies.Unsubscribe() }()
		ctx, cancel := context.WithTimeout(s.Context(), natstest.Patience)
		defer cancel()
		reply, err := replies.NextMsgWithContext(ctx)
		if err == nil {
			c.Ranges, err = messages.DecodeReply(reply, n)
		}
		if err != nil {
			return fmt.Errorf("%d IDs of %s: %w", n, tag, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.check(c)
	}
}

// taken counts the IDs of a tag that callers got.
type taken struct {
	*mixedSite
	ids atomic.Int64
	// A request was not answered in time, or IDs were burnt. Both may happen on
	// a slow machine.
	spoilt atomic.Bool
}

// add adds the reply to a request for n IDs, and reports whether it has them.
// It fails the test for all errors but the end of the numbers.
func (k *taken) add(n int64, err error) bool {
	switch {
	case err == nil:
		k.ids.Add(n)
		return true
	case errors.Is(err, messages.ErrUnavailable), errors.Is(err, messages.ErrBusy):
		k.Log(err)
		k.spoilt.Store(true)
	case !errors.Is(err, messages.ErrExhausted):
		k.Error(err)
		k.spoilt.Store(true)
	}
	return false
}

// reachEnds takes the last IDs of tags. Each time it makes new tags until one
// has an end that nothing spoilt.
func (s *mixedSite) reachEnds() {
	for _, last := range []struct {
		what string
		take func() bool
	}{
		{"a trend tag hands out its last IDs", s.endTrend},
		{"a strict tag hands out its last IDs", s.endStrict},
		{"a strict tag hands out its last IDs after a load for more", s.endStrictTogether},
	} {
		natstest.Eventually(s, last.what, func() bool { return last.take() || s.Failed() })
		if s.Failed() {
			s.FailNow()
		}
	}
}

// endTrend takes the last 25 IDs of a trend tag, one by one and in threes.
func (s *mixedSite) endTrend() bool {
	const last = 25
	tag := s.newTag(last, "--step 10")
	got := taken{mixedSite: s}
	var callers sync.WaitGroup
	for _, n := range []int64{1, 1, 3} {
		callers.Go(func() {
			for n > 0 && !got.spoilt.Load() {
				if !got.add(n, s.send(history.Batch, tag, n)()) {
					n /= 2 // three may be more than are left
				}
			}
		})
	}
	callers.Wait()
	s.Logf("%s: %d of the last %d IDs", tag, got.ids.Load(), last)
	return !got.spoilt.Load() && got.ids.Load() == last
}

// lastStrict is the number of IDs that a strict tag has left. Two requests want
// six each, so one of them at least is refused.
const lastStrict = 10

// endStrict takes the last IDs of a strict tag: six, six in vain, and one by
// one.
func (s *mixedSite) endStrict() bool {
	tag := s.newTag(lastStrict, "--order strict --step 1")
	got := taken{mixedSite: s}
	first := got.add(6, s.send(history.Strict, tag, 6)())
	second := got.add(6, s.send(history.Strict, tag, 6)())
	return first && !second && s.endOneByOne(tag, &got)
}

// endStrictTogether is like endStrict, but the two requests are in one load, so
// both are in vain.
func (s *mixedSite) endStrictTogether() bool {
	tag := s.newTag(lastStrict, "--order strict --step 1")
	got := taken{mixedSite: s}
	first, second := s.send(history.Strict, tag, 6), s.send(history.Strict, tag, 6)
	served := got.add(6, first())
	served = got.add(6, second()) || served
	// A served request had a load of its own.
	return s.endOneByOne(tag, &got) && !served
}

// endOneByOne takes the rest of a strict tag.
func (s *mixedSite) endOneByOne(tag string, got *taken) bool {
	for got.ids.Load() < lastStrict && !got.spoilt.Load() {
		// For a second after a refusal, a worker may refuse what it could serve.
		if !got.add(1, s.send(history.Strict, tag, 1)()) && s.left(tag) == 0 {
			got.spoilt.Store(true)
		}
	}
	s.Logf("%s: %d of the last %d IDs", tag, got.ids.Load(), lastStrict)
	return !got.spoilt.Load()
}

// raiseAll raises all tags by the command of a version. Workers of the old version
// are restarted then, because it names them.
func (s *mixedSite) raiseAll(command *version) {
	older := 0
	if s.worker.name == deps.OldVersion {
		older = len(s.workers)
	}
	s.raise(older, command.binary, as("admin", "tag", "raise", "--all")...)
	if older == 0 {
		return
	}
	for i, p := range s.workers {
		s.awaitSnowflakes()
		s.workers[i] = s.replace(p, s.worker.binary, "worker")
	}
	s.allFollow()
}

// awaitSnowflakes returns when all workers answer requests for snowflake IDs. On a
// busy machine a worker may serve before it has a worker ID, and if the next one
// were stopped then, nobody would answer.
func (s *mixedSite) awaitSnowflakes() {
	s.Helper()
	conn := s.connect("admin", "_INBOX_admin")
	natstest.Eventually(s, "all workers have a worker ID", func() bool {
		inbox := conn.NewInbox()
		replies, err := conn.SubscribeSync(inbox)
		if err == nil {
			err = conn.PublishRequest("$SRV.PING.idworker-snowflake", inbox, nil)
		}
		if err != nil {
			s.Fatal(err)
		}
		defer func() { _ = replies.Unsubscribe() }()
		for range s.workers {
			if m, err := replies.NextMsg(time.Second); err != nil || len(m.Data) == 0 {
				return false
			}
		}
		return true
	})
}

// killLoaders kills loaders that hold load events, while callers request IDs.
func (s *mixedSite) killLoaders() {
	js, err := jetstream.New(s.connect("admin", "_INBOX_admin"))
	if err != nil {
		s.Fatal(err)
	}
	for round := range 4 {
		i := round % len(s.loaders)
		s.pauseBusy(js, s.loaders[i])
		s.loaders[i].Kill()
		s.loaders[i] = s.serves(s.loader.binary, "loader")
		s.awaitAnswers(2 * tagCalls) // also about new tags of the template
	}
	s.endCalls()
	for _, p := range append(s.workers, s.loaders...) {
		if p.HasEnded() {
			s.Errorf("%v ended: %v", p.Cmd.Args, p.Cmd.ProcessState)
		}
	}
}

// pauseBusy pauses a loader when it holds events of the stream: later events
// were acked, by the other loader, and earlier ones were not.
func (s *mixedSite) pauseBusy(js jetstream.JetStream, loader *process.Running) {
	const enough = 20 // deliveries, of which the loader has some
	paused, since := false, uint64(0)
	natstest.Eventually(s, "a paused loader holds load events", func() bool {
		consumer, err := js.Consumer(s.Context(), "IDS_LOAD", "loader")
		if err != nil {
			return s.Failed()
		}
		info := consumer.CachedInfo()
		delivered := info.Delivered.Consumer
		switch {
		case paused && delivered > info.AckFloor.Consumer+uint64(info.NumAckPending):
			return true
		case paused && delivered > since+enough: // it was between two pulls
			loader.Resume()
			paused = false
		case !paused:
			loader.Pause()
			paused, since = true, delivered
		}
		return s.Failed()
	})
	if s.Failed() {
		s.FailNow()
	}
}
