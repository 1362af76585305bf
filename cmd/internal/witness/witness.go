package witness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/folder"
	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/resource"
)

// Counter returns the number in a value that is a counter: what lies below has been given
// away. The numbers of one key only go up.
type Counter func(value []byte) (count int64, ok bool)

// Witness is an open witness. All but Start and Stop is for use before Start.
type Witness struct {
	folder  *folder.Folder
	counter Counter
	log     *zap.Logger
	records map[string]*record
	old     []string // files that were taken over

	cancel  context.CancelFunc // nil if it was not started
	running sync.WaitGroup
}

// lockFile is the file in the folder that is locked.
const lockFile = "witness.lock"

// Open opens the witness in a folder, and creates that if it is missing. Errors wrap
// [ErrFolder], and folder.ErrInUse if another process has it.
func Open(path string, counter Counter, log *zap.Logger) (*Witness, error) {
	f, err := folder.Open(path, lockFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	w := &Witness{folder: f, counter: counter, log: log, records: make(map[string]*record)}
	if _, err := w.read(path); err != nil {
		f.Close()
		return nil, err
	}
	return w, nil
}

// Folder is where the witness is.
func (w *Witness) Folder() *folder.Folder { return w.folder }

// Fresh reports whether nothing was seen yet.
func (w *Witness) Fresh() bool { return len(w.records) == 0 }

// Seen returns how far each counter of a bucket was seen.
func (w *Witness) Seen(bucket string) map[string]int64 {
	seen := make(map[string]int64)
	if r := w.records[bucket]; r != nil {
		for key, m := range r.marks {
			if m.count > 0 {
				seen[key] = m.count
			}
		}
	}
	return seen
}

// read adds what is noted in the files of a folder.
func (w *Witness) read(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	for _, e := range entries {
		bucket, ok := strings.CutSuffix(e.Name(), fileSuffix)
		if !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		r, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFolder, err)
		}
		if w.records[bucket] == nil {
			w.records[bucket] = newRecord()
		}
		w.records[bucket].merge(r)
		paths = append(paths, path)
	}
	return paths, nil
}

// TakeOver adds what a witness noted that kept its files in another folder. They stay there
// until [Witness.Settle]. It returns whether there were any.
func (w *Witness) TakeOver(dir string) (bool, error) {
	var err error
	w.old, err = w.read(dir)
	return len(w.old) > 0, err
}

// Settle writes what was taken over, and removes the files that it was taken from.
func (w *Witness) Settle() error {
	if len(w.old) == 0 {
		return nil
	}
	if err := w.save(); err != nil {
		return err
	}
	for _, path := range w.old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("%w: %w", ErrFolder, err)
		}
	}
	w.old = nil
	return nil
}

// save writes all files.
func (w *Witness) save() error {
	for bucket, r := range w.records {
		f := w.file(bucket)
		if err := errors.Join(f.rewrite(r), f.close()); err != nil {
			return fmt.Errorf("%w: %w", ErrFolder, err)
		}
	}
	return nil
}

func (w *Witness) file(bucket string) *file {
	return &file{folder: w.folder, name: bucket + fileSuffix}
}

// Compare compares every bucket that was witnessed with what was seen in it. What went back
// is a [*ForgotError].
func (w *Witness) Compare(ctx context.Context, js jetstream.JetStream) error {
	var all []Loss
	for _, bucket := range slices.Sorted(maps.Keys(w.records)) {
		found, err := w.list(ctx, js, bucket)
		if err == nil {
			err = w.confirm(ctx, js, &found, w.records[bucket])
		}
		if err != nil {
			return err
		}
		all = append(all, found.losses(w.records[bucket])...)
	}
	return w.forgot(all)
}

func (w *Witness) forgot(all []Loss) error {
	if len(all) == 0 {
		return nil
	}
	sortLosses(all)
	return &ForgotError{Folder: w.folder.Path, Losses: all}
}

// listing is what is in a bucket.
type listing struct {
	bucket  string
	missing bool
	created time.Time
	marks   map[string]mark
}

func (l listing) losses(r *record) []Loss {
	all := r.compare(l.bucket, l.marks, l.created)
	if l.missing {
		all = append(all, Loss{Bucket: l.bucket, Missing: true})
	}
	return all
}

// confirm asks the leader for each key that seems to have gone back. A listing may come from a
// replica that lags, and while others write it may lack a key: a watch counts messages, and a key
// that is written twice meanwhile counts twice.
func (w *Witness) confirm(ctx context.Context, js jetstream.JetStream, l *listing, r *record) error {
	if l.missing {
		return nil
	}
	for key, seen := range r.marks {
		if !lost(seen, l.marks[key], r.same(l.created)) {
			continue
		}
		m, err := leader.Last(ctx, js, resource.BucketStream(l.bucket), "$KV."+l.bucket+"."+key)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			delete(l.marks, key)
			continue
		}
		if err != nil {
			return fmt.Errorf("read bucket %s, key %s: %w", l.bucket, key, err)
		}
		found := mark{revision: m.Sequence}
		deleted := m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
		if count, ok := w.count(m.Data); ok && !deleted {
			found.count = count
		}
		l.marks[key] = found
	}
	return nil
}

func (w *Witness) count(value []byte) (int64, bool) {
	if w.counter == nil {
		return 0, false
	}
	return w.counter(value)
}

// list reads a bucket.
func (w *Witness) list(ctx context.Context, js jetstream.JetStream, bucket string) (listing, error) {
	l := listing{bucket: bucket, marks: make(map[string]mark)}
	o, err := open(ctx, js, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		l.missing = true
		return l, nil
	}
	if err != nil {
		return l, err
	}
	defer o.entries.Close()
	l.created = o.created
	for {
		entry, err := o.entries.Next(ctx)
		if err != nil {
			return l, fmt.Errorf("read bucket %s: %w", bucket, err)
		}
		if entry == nil {
			return l, nil
		}
		l.marks[strings.Clone(entry.Key())] = w.markOf(entry)
	}
}

func (w *Witness) markOf(e jetstream.KeyValueEntry) mark {
	m := mark{revision: e.Revision()}
	if e.Operation() == jetstream.KeyValuePut && w.counter != nil {
		if count, ok := w.counter(e.Value()); ok {
			m.count = count
		}
	}
	return m
}

// opened is a bucket whose entries are being read.
type opened struct {
	stream  jetstream.Stream
	created time.Time // when the stream was
	entries *kvwatch.Watcher
}

// open opens a bucket. The error is jetstream.ErrBucketNotFound if there is none.
func open(ctx context.Context, js jetstream.JetStream, bucket string) (o opened, err error) {
	kv, err := js.KeyValue(ctx, bucket)
	if err == nil {
		o.stream, err = js.Stream(ctx, resource.BucketStream(bucket))
	}
	if err == nil {
		o.created = o.stream.CachedInfo().Created
		o.entries, err = kvwatch.OpenLarge(ctx, js.Conn(), kv)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = jetstream.ErrBucketNotFound
	}
	if err != nil {
		return o, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	return o, nil
}

// Renew takes what is in the buckets for what was seen in them, after somebody has decided
// that it may be served from. Counters must have been raised before, to what was seen or above;
// those that were not are a [*ForgotError], and nothing is changed then. Besides the buckets
// that were witnessed so far it is about those named.
func (w *Witness) Renew(ctx context.Context, js jetstream.JetStream, buckets []string) error {
	for _, bucket := range buckets {
		if w.records[bucket] == nil {
			w.records[bucket] = newRecord()
		}
	}
	var lower []Loss
	renewed := make(map[string]*record)
	for bucket, r := range w.records {
		found, err := w.list(ctx, js, bucket)
		if err != nil {
			return err
		}
		for _, l := range found.losses(r) {
			if l.Seen > 0 && l.Found < l.Seen {
				lower = append(lower, l)
			}
		}
		if !found.missing {
			renewed[bucket] = &record{created: found.created, marks: found.marks}
		}
	}
	if len(lower) > 0 {
		return w.forgot(lower)
	}
	for bucket := range w.records {
		if renewed[bucket] == nil {
			if err := os.Remove(w.folder.File(bucket + fileSuffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%w: %w", ErrFolder, err)
			}
		}
	}
	w.records = renewed
	return w.save()
}

// Start begins to note what happens in the buckets, and returns when all that is in them has
// been noted. A bucket that is missing, and never was seen, is noted once it is there.
func (w *Witness) Start(ctx context.Context, js jetstream.JetStream, buckets []string) error {
	var background context.Context
	background, w.cancel = context.WithCancel(context.Background())
	ready := make(chan struct{}, len(buckets))
	for _, bucket := range buckets {
		if w.records[bucket] == nil {
			w.records[bucket] = newRecord()
		}
		watch := &watch{
			Witness: w, js: js, bucket: bucket, record: w.records[bucket],
			ready: sync.OnceFunc(func() { ready <- struct{}{} }),
		}
		w.running.Go(func() { watch.run(background) })
	}
	for range buckets {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Stop ends what Start began, waits for it, and unlocks the folder.
func (w *Witness) Stop() {
	if w.cancel != nil {
		w.cancel()
		w.running.Wait()
	}
	w.folder.Close()
}
