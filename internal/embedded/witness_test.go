package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/testing/natstest"
)

// seenIn reads what the witness has noted of bucket b.
func seenIn(t *testing.T, folder string) revisions {
	t.Helper()
	r, err := readWitnessFile(filepath.Join(folder, "b"+witnessSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWitnessNotes: what is in a bucket is noted when Witness returns, and what is
// written later soon after, deletions included.
func TestWitnessNotes(t *testing.T) {
	cfg := config(t.TempDir())
	s := start(t, cfg)
	kv := createBucket(t, s, "b")
	put(t, kv, "x", "y", "x")
	if err := s.Witness(t.Context(), []string{"b"}); err != nil {
		t.Fatal(err)
	}
	if r := seenIn(t, cfg.Folder); len(r) != 2 || r["x"] != 3 || r["y"] != 2 {
		t.Errorf("at first: %v, want x at 3 and y at 2", r)
	}
	put(t, kv, "z")
	if err := kv.Delete(t.Context(), "y"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "what is written later is noted", func() bool {
		r := seenIn(t, cfg.Folder)
		return r["z"] == 4 && r["y"] == 5
	})
	s.Stop()
	start(t, cfg) // a deleted key is no damage
}

// TestDamage damages a folder, and starts a server on it, twice, since people start again
// what refused to start.
func TestDamage(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	older := filepath.Join(t.TempDir(), "older")
	func() { // a server that was stopped, and a backup of it with less in it
		s := start(t, config(whole))
		put(t, createBucket(t, s, "b"), "x", "y")
		s.Stop()
		if err := os.CopyFS(older, os.DirFS(filepath.Join(whole, "jetstream"))); err != nil {
			t.Fatal(err)
		}
		s = start(t, config(whole))
		if err := s.Witness(t.Context(), []string{"b"}); err != nil {
			t.Fatal(err)
		}
		put(t, createBucket(t, s, "b"), "x", "z")
		natstest.Eventually(t, patience, "all is noted", func() bool { return seenIn(t, whole)["z"] == 4 })
		s.Stop()
	}()
	file := "b" + witnessSuffix
	add := func(name, text string) func(string) error {
		return func(folder string) error {
			f, err := os.OpenFile(filepath.Join(folder, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			_, err = f.WriteString(text)
			return errors.Join(err, f.Close())
		}
	}
	remove := func(name string) func(string) error {
		return func(folder string) error { return os.RemoveAll(filepath.Join(folder, name)) }
	}
	for name, test := range map[string]struct {
		do   func(folder string) error
		says string // nothing if it is to start
	}{
		"nothing": {func(string) error { return nil }, ""},
		"an older copy of the server's files": {func(folder string) error {
			return errors.Join(remove("jetstream")(folder), os.CopyFS(filepath.Join(folder, "jetstream"), os.DirFS(older)))
		}, "of bucket b is at revision"},
		"no files of the server":     {remove("jetstream"), "bucket b is missing"},
		"a key is older than seen":   {add(file, "5 x\n"), "key x of bucket b is at revision 3, but was seen at 5"},
		"a key is missing":           {add(file, "1 lost\n"), "key lost of bucket b is at revision 0, but was seen at 1"},
		"a bucket is missing":        {add("c"+witnessSuffix, ""), "bucket c is missing"},
		"a witness is a folder":      {func(folder string) error { return os.Mkdir(filepath.Join(folder, "c"+witnessSuffix), 0o700) }, "is a directory"},
		"no witness":                 {remove(file), ""},
		"the last line is torn":      {add(file, "999 x"), ""},
		"a hole from a power cut":    {add(file, string(make([]byte, 100))+"\n"), ""},
		"lines that are none":        {add(file, "\n999\nx 999\n-5 x\n999 a b\n99999999999999999999 x\n"), ""},
		"damage behind a hole":       {add(file, string(make([]byte, 100))+"\n999 x\n"), "was seen at 999"},
		"a rewrite that was cut off": {add(file+".new", "999 x\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "data")
			if err := errors.Join(os.CopyFS(folder, os.DirFS(whole)), test.do(folder)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if test.says == "" {
					start(t, config(folder)).Stop()
					continue
				}
				err := fails(t, config(folder))
				if !errors.Is(err, ErrFolder) || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%v, want ErrDamaged and %q", err, test.says)
				}
			}
		})
	}
}

// TestWitnessGoesOn: a witness that cannot write says so, and goes on when it can. Until
// then Witness does not return, and Stop does not wait for it.
func TestWitnessGoesOn(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	failed := func() int { return logs.FilterMessageSnippet("witness").Len() }
	cfg := config(t.TempDir())
	cfg.Log = zap.New(core)
	s := start(t, cfg)
	put(t, createBucket(t, s, "b"), "x")
	blocker := filepath.Join(cfg.Folder, "b"+witnessSuffix+".new")
	if err := os.Mkdir(blocker, 0o700); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Witness(t.Context(), []string{"b"}) }()
	natstest.Eventually(t, patience, "the witness fails", func() bool { return failed() > 0 })
	select {
	case err := <-done:
		t.Fatalf("Witness returned %v although nothing was noted", err)
	default:
	}
	if err := os.Remove(blocker); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if r := seenIn(t, cfg.Folder); r["x"] != 1 {
		t.Errorf("noted: %v, want x at 1", r)
	}
}

// TestWitnessGivesUp: Witness returns when its context ends, and Stop ends the witness.
func TestWitnessGivesUp(t *testing.T) {
	s := start(t, config(t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Witness(ctx, []string{"missing"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	cancelled, ended := make(chan struct{}), false
	cancelWitness := s.witness.cancel
	s.witness.cancel = func() { cancelWitness(); close(cancelled) }
	s.witness.running.Go(func() {
		<-cancelled
		time.Sleep(50 * time.Millisecond) // one that takes its time to end
		ended = true
	})
	s.Stop()
	if !ended {
		t.Error("Stop does not wait for the witness")
	}
	s.witness.cancel = cancelWitness
	if !s.witness.conn.IsClosed() {
		t.Error("the witness's connection is open after Stop")
	}
}

// TestWitnessFile: the latest line of a key counts, a long file is rewritten as one line
// a key, and nothing is lost with that.
func TestWitnessFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b"+witnessSuffix)
	f := newWitnessFile(path)
	add := func(key string, revision uint64) {
		t.Helper()
		if err := f.add(key, revision); err != nil {
			t.Fatal(err)
		}
	}
	add("before", 1)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("there is a file before it can be whole: %v", err)
	}
	if err := os.WriteFile(path+".new", []byte("999 torn"), 0o600); err != nil { // a crash left it
		t.Fatal(err)
	}
	if err := f.rewrite(); err != nil {
		t.Fatal(err)
	}
	if data := read(t, path); data != "1 before\n" {
		t.Errorf("after the first rewrite: %q", data)
	}
	revision := uint64(1)
	for range maxLines(3) - 1 {
		revision++
		add(fmt.Sprint("k", revision%2), revision)
	}
	if data := read(t, path); strings.Count(data, "\n") != maxLines(3) {
		t.Fatalf("%d lines, want %d", strings.Count(data, "\n"), maxLines(3))
	}
	add("k0", revision+1)
	if data := read(t, path); strings.Count(data, "\n") != 3 {
		t.Errorf("%d lines after a rewrite, want one for each key", strings.Count(data, "\n"))
	}
	add("k1", revision+2)
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	got, err := readWitnessFile(path)
	if err != nil || len(got) != 3 || got["before"] != 1 || got["k0"] != revision+1 || got["k1"] != revision+2 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("the new file is left behind: %v", err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
