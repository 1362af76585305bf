package recovery

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
)

// saved are the options of an installation with one of everything that a backup
// has, alone those of one that is alone.
var (
	saved = options{
		list:   "chat.* 10 strict 1000 50 7001\nchat.1 10 11\nchat.hot 500 21 strict\norder 1000 5 strict\nplain 1000 6\ngone removed 78 strict\n",
		record: "first",
	}
	alone = options{alone: true, list: saved.list, record: saved.record}
)

// TestRestoreReturnsAll: whatever was lost, a restore brings back all tags with
// their orders, removed tags as removed, templates, settings and records, and
// raises everything. Where nothing is missing, it changes nothing else. A register
// that it makes is never without the mark that keeps loaders from granting.
func TestRestoreReturnsAll(t *testing.T) {
	t.Parallel()
	config, enrichments := agreement.BucketName(prefix), enrich.BucketName(prefix)
	all := []string{register.BucketName(prefix), config, enrichments}
	for name, lose := range map[string][]string{
		"nothing": nil, "the register": all[:1], "settings": {config}, "all": all,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := saved
			o.alone = lose == nil // then there is nothing that could be back too early
			i := newInstallation(t, o)
			b := i.backup()
			want := i.raised(0)
			i.lose(lose...)
			began := time.Now()
			mark := make(chan string, 1)
			go func() { mark <- i.firstMark() }()
			_, err := i.do(Wish{Backup: b, Anyway: true})
			must(t, err)
			if slices.Contains(lose, all[0]) && <-mark == "" {
				t.Error("the register was made without a mark")
			}
			if got := i.raised(b.Taken.UnixMicro()); got != want {
				t.Errorf("the tags are\n%s, want\n%s", got, want)
			}
			for key, value := range b.Config {
				here, found, err := agreement.Lookup(t.Context(), i.js, prefix, key)
				must(t, err)
				if raised := key == templates.Key || key == agreement.FloorKey; !found || here != value && !raised {
					t.Errorf("setting %s is %q, want %q", key, here, value)
				}
			}
			if slices.Contains(lose, config) && !i.setting(templates.Key).Created.After(began.Add(wait)) {
				t.Error("the templates are back while loaders may grant")
			}
			record, err := kv.Get(t.Context(), i.js, enrichments, "orders")
			if err != nil || string(record.Value) != "first" {
				t.Errorf("the record is %q, %v", record.Value, err)
			}
		})
	}
}

// TestSettingsBeforeTheRegister: the identity of a lost register, and the ID of its
// installation, are back before a register can be made. Otherwise a process that
// starts in between makes another, in which tags begin at 1.
func TestSettingsBeforeTheRegister(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, alone)
	b := i.backup()
	i.lose(register.BucketName(prefix), agreement.BucketName(prefix))
	const inTheWay = "IN_THE_WAY"
	natstest.CreateStream(t, i.js, jetstream.StreamConfig{Name: inTheWay, Subjects: []string{"$KV." + register.BucketName(prefix) + ".>"}})
	if _, err := i.do(Wish{Backup: b}); err == nil {
		t.Error("the register was made beside a stream with its subjects")
	}
	for _, key := range []string{agreement.InstallationKey, register.ConfigKey} {
		if got := string(i.setting(key).Value); got != b.Config[key] {
			t.Errorf("setting %s is %q before the register is made, want %q", key, got, b.Config[key])
		}
	}
	must(t, i.js.DeleteStream(t.Context(), inTheWay))
	_, err := i.do(Wish{Backup: b})
	must(t, err)
}

// firstMark returns the mark that the register has when it is there again.
func (i *installation) firstMark() string {
	for i.Context().Err() == nil {
		if stream, err := i.js.Stream(i.Context(), kv.StreamName(register.BucketName(prefix))); err == nil {
			return stream.CachedInfo().Config.Metadata["idworker_raising"]
		}
	}
	return ""
}

// wait is less than the time between the mark of a restore and its writes, for
// which loaders may grant.
const wait = 4 * time.Second

// TestRecordsStay: a record of an enrichment that went on, or was deleted, stays
// as it is: its events may be in flight.
func TestRecordsStay(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, alone)
	i.record("gone", "first")
	b := i.backup()
	i.record("orders", "second")
	i.delete(enrich.BucketName(prefix), "gone")
	_, err := i.do(Wish{Backup: b, Anyway: true})
	must(t, err)
	bucket, err := i.js.KeyValue(t.Context(), enrich.BucketName(prefix))
	must(t, err)
	if e, err := bucket.Get(t.Context(), "orders"); err != nil || string(e.Value()) != "second" {
		t.Errorf("a record that went on: %v, %v", e, err)
	}
	if e, err := bucket.Get(t.Context(), "gone"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("a deleted record: %v, %v", e, err)
	}
}

// TestPlanOfARestore: the plan of a restore writes nothing, and shows whether
// anything is missing.
func TestPlanOfARestore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*installation)
		nothing bool
	}{
		"nothing changed":         {func(*installation) {}, true},
		"more tags and templates": {func(i *installation) { must(i.T, i.importText("day.> 20 trend 0 0 1\nnew 10 1\n")) }, true},
		"a tag removed":           {func(i *installation) { must(i.T, i.tags().Remove(i.Context(), "plain")) }, true},
		"a record deleted":        {func(i *installation) { i.delete(enrich.BucketName(prefix), "orders") }, true},
		"all lost":                {func(i *installation) { i.lose(register.BucketName(prefix), agreement.BucketName(prefix)) }, false},
		"records lost":            {func(i *installation) { i.lose(enrich.BucketName(prefix)) }, false},
		"template removed": {func(i *installation) {
			must(i.T, templates.Remove(i.Context(), i.js, prefix, "chat.*"))
		}, false},
		"a tag deleted by hand": {func(i *installation) { i.delete(register.BucketName(prefix), "plain") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t, alone)
			b := i.backup()
			test.change(i)
			i.untouched(func() {
				p, err := i.plan(Wish{Backup: b})
				if err != nil || p.Nothing() != test.nothing {
					t.Errorf("%v, %+v; want nothing missing: %v", err, p, test.nothing)
				}
			})
		})
	}
}

// TestDecisionIsAnnouncedAgain: a restore that ended between its decision and the
// announcement leaves nothing that is missing, and workers that hold what was
// granted before. Repeated, it makes up for the announcement.
func TestDecisionIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, alone)
	b := i.backup()
	i.lose(register.BucketName(prefix))
	_, err := i.do(Wish{Backup: b})
	must(t, err)
	want := i.setting(agreement.DecidedKey)
	i.delete(agreement.BucketName(prefix), agreement.DecidedKey)
	p, err := i.plan(Wish{Backup: b})
	if err != nil || !p.Nothing() {
		t.Errorf("something is missing: %+v, %v", p, err)
	}
	_, err = Apply(t.Context(), i.Site, p, func(tags.Change) {})
	must(t, err)
	if got := i.setting(agreement.DecidedKey); string(got.Value) != string(want.Value) || len(want.Value) == 0 {
		t.Errorf("announced: %q, want %q", got.Value, want.Value)
	}
}

// TestRestoreRefused: another installation is refused without a write, and named
// with its age and its tags. So is a register that cannot be opened.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	b, other := newInstallation(t, saved).backup(), newInstallation(t, saved)
	_, created, _ := strings.Cut(string(other.setting(agreement.InstallationKey).Value), " ")
	other.untouched(func() {
		_, err := other.do(Wish{Backup: b})
		if want := other.id + ", since " + created + ", with 5 tags"; !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %v with %q", err, ErrOther, want)
		}
	})
	stream, err := other.js.Stream(t.Context(), kv.StreamName(register.BucketName(prefix)))
	must(t, err)
	config := stream.CachedInfo().Config
	config.MaxAge = time.Hour
	_, err = other.js.UpdateStream(t.Context(), config)
	must(t, err)
	other.untouched(func() {
		if _, err := other.plan(Wish{Backup: b, InPlaceOf: other.id}); !errors.Is(err, durability.ErrUnsafe) || !strings.Contains(err.Error(), "max_age") {
			t.Errorf("entries that expire: %v", err)
		}
	})
}

// TestInPlaceOf: a backup takes the place of the installation that processes made
// while the data was lost. The entries of both are raised, and the ID is that
// of the backup. It may be run again.
func TestInPlaceOf(t *testing.T) {
	t.Parallel()
	own, other := newInstallation(t, alone), newInstallation(t, alone)
	b := own.backup()
	must(t, other.importText("order 1000 500000 strict\nlater 1000 400\n"))
	for range 2 { // the second time no other installation is there any more
		_, err := other.do(Wish{Backup: b, InPlaceOf: other.id})
		must(t, err)
	}
	if got := other.raised(b.Taken.UnixMicro()); !strings.Contains(got, "later 1000 2\n") {
		t.Errorf("exported:\n%s", got)
	}
	if id, err := agreement.PeekInstallation(t.Context(), other.js, prefix); err != nil || id != own.id {
		t.Errorf("the installation is %s, %v, want %s", id, err, own.id)
	}
}

// TestServerConfirmsTheTime: after a total loss, the NATS server's clock counts as
// soon as its first bucket shows it. If this machine's clock differs, nothing else
// is made.
func TestServerConfirmsTheTime(t *testing.T) {
	t.Parallel()
	b := newInstallation(t, saved).backup()
	i := emptyInstallation(t, options{})
	i.now = func() time.Time { return time.Now().Add(-time.Hour) }
	b.Taken = i.now().Add(-time.Hour)
	p, err := i.plan(Wish{Backup: b})
	if err != nil || !p.Unconfirmed {
		t.Fatalf("the plan counts on a clock that nothing confirms: %+v, %v", p, err)
	}
	if _, err := Apply(t.Context(), i.writer, p, func(tags.Change) {}); !errors.Is(err, ErrClock) {
		t.Errorf("with a clock an hour behind: %v", err)
	}
	if _, err := i.js.KeyValue(t.Context(), register.BucketName(prefix)); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the register: %v", err)
	}
	for _, key := range []string{agreement.InstallationKey, register.ConfigKey} {
		if i.setting(key).Exists() {
			t.Errorf("setting %s was put back", key)
		}
	}
}

// TestRestoreFromTheFuture: whatever a clock was when a backup was taken, or when
// tags were raised before, a restore works with the right clock, shows how far the
// time lies ahead, and targets never fall.
func TestRestoreFromTheFuture(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{alone: true, list: "order 1000 5\n"})
	b := i.backup()
	b.Taken = time.Now().Add(48 * time.Hour)
	floor := b.Taken.UnixMicro()
	for range 2 {
		for name := range i.streams() {
			must(t, i.js.DeleteStream(t.Context(), name))
		}
		p, err := i.plan(Wish{Backup: b})
		if err != nil || p.Future < 47*time.Hour || !p.Unconfirmed {
			t.Errorf("the plan shows a time %v ahead of the clock, unconfirmed: %v, %v", p.Future, p.Unconfirmed, err)
		}
		for _, w := range []Wish{{Backup: b}, {}} {
			done, err := i.do(w)
			if err != nil || done.Target < floor {
				t.Fatalf("target %d, earlier ones are up to %d, %v", done.Target, floor, err)
			}
			floor = done.Target + 1
		}
		b = i.backup() // by the right clock
	}
}

// TestNoInstallationIsRaised: where there is no installation, a raise creates
// nothing: its buckets would have one replica, and a restore or provision is what
// is needed.
func TestNoInstallationIsRaised(t *testing.T) {
	t.Parallel()
	i := emptyInstallation(t, options{})
	if _, err := i.do(Wish{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("%v, want %v", err, ErrEmpty)
	}
	for name := range i.streams() {
		t.Errorf("it has created %s", name)
	}
}

// TestRestoreShowsTooFewReplicas: the register that a restore makes has the
// backup's replicas, whatever the settings have. Buckets that exist stay as they
// are, and are named.
func TestRestoreShowsTooFewReplicas(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.StartCluster(t, 3).Connect(t, nats.ReconnectBufSize(-1)))
	on := On(js, prefix, jetStream(t))
	i := inhabit(t, &installation{T: t, Site: on, writer: on}, options{list: "order 1000 5\n"})
	b := i.backup()
	i.lose(register.BucketName(prefix))
	b.Replicas = 3
	done, err := i.do(Wish{Backup: b}, agreement.Bucket(prefix, 3), register.Bucket(prefix, 3))
	if want := []string{"bucket " + agreement.BucketName(prefix)}; err != nil || done.Undone != nil || !slices.Equal(done.Fewer, want) {
		t.Errorf("with too few replicas: %v, want %v; %v, %v", done.Fewer, want, err, done.Undone)
	}
}

// TestTargetAfterALostMark: a raise that starts over, because its mark is gone,
// stays above the time at which it began: since its plan, the prompt may have
// taken hours.
func TestTargetAfterALostMark(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{alone: true, list: "order 10 5\n"})
	p, err := i.plan(Wish{})
	must(t, err)
	began := time.Now().Add(10 * time.Hour)
	i.writer.now = func() time.Time { return began }
	unmark := sync.OnceFunc(func() {
		stream, err := i.js.Stream(t.Context(), kv.StreamName(register.BucketName(prefix)))
		must(t, err)
		config := stream.CachedInfo().Config
		delete(config.Metadata, "idworker_raising")
		_, err = i.js.UpdateStream(t.Context(), config)
		must(t, err)
	})
	done, err := Apply(t.Context(), i.writer, p, func(tags.Change) { unmark() })
	must(t, err)
	if done.Target < began.UnixMicro() {
		t.Errorf("raised to %d, below the time at which the raise began, %d", done.Target, began.UnixMicro())
	}
}

// TestRegisterLostSinceThePlan: a raise that was confirmed for the tags of a
// register does not decide on an empty one: what is missing has to be shown first.
func TestRegisterLostSinceThePlan(t *testing.T) {
	t.Parallel()
	for name, wish := range map[string]func(*installation) Wish{
		"raise":   func(*installation) Wish { return Wish{} },
		"restore": func(i *installation) Wish { return Wish{Backup: i.backup(), Anyway: true} },
	} {
		i := newInstallation(t, alone)
		p, err := i.plan(wish(i))
		must(t, err)
		i.lose(register.BucketName(prefix))
		i.untouched(func() {
			if _, err := Apply(t.Context(), i.writer, p, func(tags.Change) {}); !errors.Is(err, store.ErrRegressed) {
				t.Errorf("%s: %v, want an ErrRegressed", name, err)
			}
		})
		_, err = i.do(Wish{})
		must(t, err)
	}
}
