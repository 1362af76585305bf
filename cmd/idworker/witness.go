package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/messages"
)

// A witness remembers, apart from the server's own files, at which revision every key
// of a bucket was seen. A server that finds its files damaged starts with what it can
// read: without some keys, or with older values of them, and the numbers that those
// had counted would be handed out again. What the witness saw shows it.
//
// It is a file of lines "revision key", the latest line of a key counts. It is written
// a moment after the server has acknowledged, and not synced: a witness that misses
// something sees less, but never raises a false alarm, because the server synced what
// it was told.
const witnessSuffix = ".witness"

// seen is the highest revision at which each key was seen.
type seen map[string]uint64

// readWitness reads a witness's file.
func readWitness(path string) (seen, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := make(seen)
	end := bytes.LastIndexByte(data, '\n') + 1 // what follows was cut off by a crash
	for line := range strings.Lines(string(data[:end])) {
		number, key, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		revision, err := strconv.ParseUint(number, 10, 64)
		if ok && err == nil && messages.CheckTag(key) == nil {
			s[key] = max(s[key], revision)
		} // else a power cut left a hole here
	}
	return s, nil
}

// hearWitnesses compares all buckets that have a witness with what it saw.
func (f *dataFolder) hearWitnesses(ctx context.Context, js jetstream.JetStream) error {
	files, err := os.ReadDir(f.path)
	if err != nil {
		return fmt.Errorf("%w: %w", errDataFolder, err)
	}
	for _, file := range files {
		bucket, ok := strings.CutSuffix(file.Name(), witnessSuffix)
		if !ok {
			continue
		}
		want, err := readWitness(filepath.Join(f.path, file.Name()))
		if err != nil {
			return f.damaged("%v", err)
		}
		kv, err := js.KeyValue(ctx, bucket)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			return f.damaged("bucket %s is missing", bucket)
		}
		if err != nil {
			return fmt.Errorf("open bucket %s: %w", bucket, err)
		}
		have, err := listRevisions(ctx, kv)
		if err != nil {
			return fmt.Errorf("read bucket %s: %w", bucket, err)
		}
		for key, revision := range want {
			if have[key] < revision {
				return f.damaged("key %s of bucket %s is at revision %d, but was seen at %d", key, bucket, have[key], revision)
			}
		}
	}
	return nil
}

// listRevisions returns the revision of every key, deleted ones included.
func listRevisions(ctx context.Context, kv jetstream.KeyValue) (seen, error) {
	w, err := kvwatch.Open(ctx, kv)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	s := make(seen)
	for {
		entry, err := w.Next(ctx)
		if entry == nil || err != nil {
			return s, err
		}
		s[entry.Key()] = entry.Revision()
	}
}

// witness writes down what it sees of one bucket.
type witness struct {
	path  string
	known seen
	file  *os.File
	lines int
}

// witnessRetry is the pause before a witness that failed goes on.
const witnessRetry = time.Second

// watch writes down what happens in a bucket until ctx ends, and calls ready once it
// has written down what there was.
func (f *dataFolder) watch(ctx context.Context, js jetstream.JetStream, bucket string, ready func(), log *zap.Logger) {
	w := &witness{path: filepath.Join(f.path, bucket+witnessSuffix)}
	for ctx.Err() == nil {
		err := w.follow(ctx, js, bucket, ready)
		if ctx.Err() == nil {
			log.Warn("witness of the data folder fails, trying again", zap.String("bucket", bucket), zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(witnessRetry):
		}
	}
}

// follow writes the file anew with what there is, and then a line for every change.
func (w *witness) follow(ctx context.Context, js jetstream.JetStream, bucket string, ready func()) (err error) {
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return err
	}
	entries, err := kvwatch.Open(ctx, kv)
	if err != nil {
		return err
	}
	defer entries.Close()
	w.known = make(seen)
	defer func() {
		if w.file != nil {
			err = errors.Join(err, w.file.Close())
			w.file = nil
		}
	}()
	for {
		entry, err := entries.Next(ctx)
		switch {
		case err != nil:
			return err
		case entry == nil:
			if err = w.rewrite(); err == nil {
				ready()
			}
		default:
			err = w.see(strings.Clone(entry.Key()), entry.Revision())
		}
		if err != nil {
			return err
		}
	}
}

// see notes one entry; in the file too, once that holds what was there before.
func (w *witness) see(key string, revision uint64) error {
	w.known[key] = revision
	if w.file == nil {
		return nil
	}
	if w.lines++; w.lines > 10_000+4*len(w.known) {
		return w.rewrite()
	}
	_, err := fmt.Fprintf(w.file, "%d %s\n", revision, key)
	return err
}

// rewrite replaces the file by one line a key. It is renamed into place, so that a
// crash leaves the old file or the new.
func (w *witness) rewrite() error {
	file, err := os.OpenFile(w.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	buf := bufio.NewWriter(file)
	for _, key := range slices.Sorted(maps.Keys(w.known)) {
		fmt.Fprintf(buf, "%d %s\n", w.known[key], key)
	}
	err = errors.Join(buf.Flush(), file.Sync())
	if err == nil {
		err = os.Rename(w.path+".new", w.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if w.file != nil {
		err = w.file.Close()
	}
	w.file, w.lines = file, len(w.known)
	return err
}
