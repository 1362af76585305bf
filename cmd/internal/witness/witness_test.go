package witness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/cmd/internal/folder"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

// number counts values that are numbers.
func number(value []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil && n > 0
}

// bench is a server with bucket b, and a witness of it.
type bench struct {
	*testing.T
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	folder string
	logs   *observer.ObservedLogs
	log    *zap.Logger
}

func newBench(t *testing.T) *bench {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t))
	core, logs := observer.New(zapcore.InfoLevel)
	b := &bench{T: t, js: js, folder: filepath.Join(t.TempDir(), "witness"), logs: logs, log: zap.New(core)}
	b.create()
	return b
}

func (b *bench) create() {
	b.Helper()
	var err error
	natstest.CreateBucket(b, b.js, "b")
	if b.kv, err = b.js.KeyValue(b.Context(), "b"); err != nil {
		b.Fatal(err)
	}
}

// remake deletes the bucket and makes another one, empty, as nats.go does.
func (b *bench) remake() {
	b.Helper()
	if err := b.js.DeleteKeyValue(b.Context(), "b"); err != nil {
		b.Fatal(err)
	}
	b.create()
}

func (b *bench) put(key, value string) {
	b.Helper()
	if _, err := b.kv.PutString(b.Context(), key, value); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) open() *Witness {
	b.Helper()
	w, err := Open(b.folder, number, b.log)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)
	return w
}

// run starts a witness.
func (b *bench) run() *Witness {
	b.Helper()
	w := b.open()
	if err := w.Start(b.Context(), b.js, []string{"b"}); err != nil {
		b.Fatal(err)
	}
	return w
}

// compare says what a process finds that starts now.
func (b *bench) compare() error {
	b.Helper()
	w := b.open()
	defer w.Stop()
	return w.Compare(b.Context(), b.js)
}

// noted is what is in the file of the bucket.
func (b *bench) noted() map[string]mark {
	b.Helper()
	r, err := readFile(filepath.Join(b.folder, "b"+fileSuffix))
	if err != nil {
		b.Fatal(err)
	}
	return r.marks
}

func (b *bench) errors() int { return b.logs.FilterLevelExact(zapcore.ErrorLevel).Len() }

// TestNotes: what is in a bucket is noted when Start returns, and what is written later soon
// after, deletions included. None of that is a loss.
func TestNotes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("x", "1")
	b.put("y", "text")
	b.put("x", "7")
	w := b.run()
	if n := b.noted(); len(n) != 2 || n["x"] != (mark{3, 7}) || n["y"] != (mark{2, 0}) {
		t.Errorf("at first: %v", n)
	}
	b.put("z", "5")
	if err := errors.Join(b.kv.Delete(t.Context(), "x"), b.kv.Delete(t.Context(), "y")); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "what is written later is noted", func() bool {
		n := b.noted()
		return n["z"] == mark{4, 5} && n["x"] == mark{5, 0} && n["y"] == mark{6, 0}
	})
	w.Stop()
	if err := b.compare(); err != nil || b.errors() > 0 {
		t.Errorf("%v; %v", err, b.logs.All())
	}
	b.put("x", "1") // after the deletion, that is
	if err := b.compare(); err != nil {
		t.Error(err)
	}
}

// TestLost is the rule: what counts as a loss.
func TestLost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		seen, found mark
		same        bool
		lost        bool
	}{
		{mark{5, 100}, mark{6, 110}, true, false},
		{mark{5, 100}, mark{5, 100}, true, false},
		{mark{5, 100}, mark{4, 90}, true, true},
		{mark{5, 100}, mark{9, 90}, true, true},    // lowered by hand
		{mark{5, 100}, mark{}, true, true},         // missing
		{mark{5, 100}, mark{6, 0}, true, false},    // deleted, or corrupt
		{mark{5, 100}, mark{4, 0}, true, true},     // an older deletion
		{mark{5, 100}, mark{1, 100}, false, false}, // made again, and raised
		{mark{5, 100}, mark{9, 99}, false, true},   // made again, and counted
		{mark{5, 100}, mark{9, 0}, false, true},    // made again, and deleted
		{mark{5, 0}, mark{5, 0}, true, false},
		{mark{5, 0}, mark{4, 0}, true, true},
		{mark{5, 0}, mark{}, true, true},
		{mark{5, 0}, mark{9, 0}, false, true},
		{mark{5, 0}, mark{6, 1}, true, false},
		{mark{5, 0}, mark{6, 1}, false, true},
	} {
		if got := lost(tc.seen, tc.found, tc.same); got != tc.lost {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// TestRemadeWhileWatched: a bucket that is deleted and made again under a running witness is
// noticed, logged once, and never taken for what was seen, however far it counts below that.
func TestRemadeWhileWatched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("x", "100")
	b.put("y", "text")
	w := b.run()
	b.remake()
	for i := range 10 {
		b.put("x", strconv.Itoa(10+i))
		b.put("new", strconv.Itoa(1+i))
	}
	natstest.Eventually(t, "it is noticed", func() bool { return b.errors() == 1 })
	if got := b.logs.FilterLevelExact(zapcore.ErrorLevel).All()[0].ContextMap()["error"]; !strings.Contains(fmt.Sprint(got), "key x of bucket b is at 1") {
		t.Errorf("the error is %v", got)
	}
	b.put("x", "20")
	b.put("new", "50")
	natstest.Eventually(t, "the witness goes on", func() bool { return b.noted()["new"].count == 50 })
	if n := b.noted(); n["x"].count != 100 || n["y"].revision != 2 || b.errors() != 1 {
		t.Errorf("noted %v, %d errors", n, b.errors())
	}
	w.Stop()
	var forgot *ForgotError
	if err := b.compare(); !errors.As(err, &forgot) || len(forgot.Losses) != 2 || forgot.Losses[0].Key != "x" || forgot.Losses[0].Found != 20 {
		t.Errorf("the next start finds %v", err)
	}
	b.put("x", "100")
	if err := b.compare(); !errors.As(err, &forgot) || len(forgot.Losses) != 1 || forgot.Losses[0].Key != "y" {
		t.Errorf("with the counter raised: %v", err)
	}
}

// TestRemadeAndRaised: a bucket that was made again with counters as high as they were is as good
// as the first one. Its revisions are those that count from then on.
func TestRemadeAndRaised(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 5 {
		b.put("x", "100")
	}
	w := b.run()
	b.remake()
	b.put("x", "100")
	natstest.Eventually(t, "it is noticed", func() bool {
		return b.logs.FilterMessageSnippet("made again").Len() == 1
	})
	w.Stop()
	if n := b.noted(); n["x"] != (mark{1, 100}) || b.errors() > 0 || b.compare() != nil {
		t.Errorf("noted %v; %v", n, b.logs.All())
	}
}

// TestDeletedWhileWatched: a bucket that is gone is an error, and no other bucket will do.
func TestDeletedWhileWatched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("x", "100")
	w := b.run()
	if err := b.js.DeleteKeyValue(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "it is noticed", func() bool { return b.errors() == 1 })
	w.Stop()
	var forgot *ForgotError
	if err := b.compare(); !errors.As(err, &forgot) || forgot.Losses[0].String() != "bucket b is missing" {
		t.Errorf("the next start finds %v", err)
	}
	b.create()
	if err := b.compare(); !errors.As(err, &forgot) || forgot.Losses[0].String() != "key x of bucket b is missing, but was seen at 100" {
		t.Errorf("with an empty one instead: %v", err)
	}
}

// TestNotThereYet: a bucket that is missing, and was never seen, holds nobody up, and is noted
// once it is there.
func TestNotThereYet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.open()
	if err := w.Start(t.Context(), b.js, []string{"late"}); err != nil {
		t.Fatal(err)
	}
	kv, err := b.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "late"})
	if err == nil {
		_, err = kv.PutString(t.Context(), "x", "3")
	}
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "it is noted", func() bool {
		r, err := readFile(filepath.Join(b.folder, "late"+fileSuffix))
		return err == nil && r.marks["x"] == mark{1, 3}
	})
	if len(b.logs.All()) > 0 {
		t.Error(b.logs.All())
	}
}

// TestRenew takes the present state for what was seen, except for counters that are lower.
func TestRenew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("x", "100")
	b.put("y", "text")
	b.run().Stop()
	b.remake()
	b.put("x", "99")
	renew := func() error {
		w := b.open()
		defer w.Stop()
		return w.Renew(t.Context(), b.js, []string{"b"})
	}
	var forgot *ForgotError
	if err := renew(); !errors.As(err, &forgot) || len(forgot.Losses) != 1 || forgot.Losses[0].Key != "x" {
		t.Errorf("renewed with a lower counter: %v", err)
	}
	if b.compare() == nil {
		t.Error("a Renew that refused changed what was seen")
	}
	b.put("x", "100")
	if err := errors.Join(renew(), b.compare()); err != nil {
		t.Error(err)
	}
	if err := b.js.DeleteKeyValue(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := renew(); !errors.Is(err, ErrForgot) {
		t.Errorf("renewed without the bucket that counted: %v", err)
	}
}

// TestGoesOn: a witness that cannot write says so, and goes on when it can. Until then Start
// does not return, and Stop does not wait for it.
func TestGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("x", "1")
	w := b.open()
	blocker := filepath.Join(b.folder, "b"+fileSuffix+".new")
	if err := os.Mkdir(blocker, 0o700); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Start(t.Context(), b.js, []string{"b"}) }()
	natstest.Eventually(t, "it fails", func() bool { return b.logs.FilterMessageSnippet("witness failed").Len() > 0 })
	select {
	case err := <-done:
		t.Fatalf("Start returned %v although nothing was noted", err)
	default:
	}
	if err := os.Remove(blocker); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := b.noted(); n["x"] != (mark{1, 1}) {
		t.Errorf("noted: %v", n)
	}
}

// TestGivesUp: Start returns when its context ends, Stop ends and waits for what it began, and
// only then may another process have the folder.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.run()
	if _, err := Open(b.folder, number, b.log); !errors.Is(err, folder.ErrInUse) || !errors.Is(err, ErrFolder) {
		t.Errorf("a second witness in the folder: %v", err)
	}
	ended := false
	cancelled := make(chan struct{})
	cancel := w.cancel
	w.cancel = sync.OnceFunc(func() { cancel(); close(cancelled) })
	w.running.Go(func() {
		<-cancelled
		time.Sleep(50 * time.Millisecond) // one that takes its time to end
		ended = true
	})
	w.Stop()
	if !ended {
		t.Error("Stop does not wait")
	}
	w = b.open()
	if err := os.Mkdir(filepath.Join(b.folder, "b"+fileSuffix+".new"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancelStart := context.WithCancel(t.Context())
	cancelStart()
	if err := w.Start(ctx, b.js, []string{"b"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}

// TestUnusable: a folder that cannot be used, and a file that cannot be read, are errors.
func TestUnusable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "c"+fileSuffix), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below"), dir} {
		if _, err := Open(path, number, zap.NewNop()); !errors.Is(err, ErrFolder) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestErrorIsShort: an error names the worst losses, and says how many more there are.
func TestErrorIsShort(t *testing.T) {
	t.Parallel()
	var all []Loss
	for i := range int64(1000) {
		all = append(all, newLoss("b", fmt.Sprint("k", i), mark{9, 1000 + i}, mark{8, 10}))
	}
	w := &Witness{folder: &folder.Folder{Path: "/w"}}
	text := w.forgot(all).Error()
	if !strings.Contains(text, "/w: key k999 of bucket b is at 10, but was seen at 1999; key k998") || !strings.HasSuffix(text, "and 995 more") {
		t.Error(text)
	}
}
