package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
)

// A witness notes at which revision every key of some buckets was seen, in one file for
// each bucket. See the package's documentation for what that is good for.
type witness struct {
	dir string // where its files are
	log *zap.Logger

	cancel  context.CancelFunc // nil if it was not started
	running sync.WaitGroup
	conn    *nats.Conn
}

// witnessSuffix follows the name of the bucket in the name of its file.
const witnessSuffix = ".witness"

func newWitness(dir string, log *zap.Logger) *witness { return &witness{dir: dir, log: log} }

func (w *witness) path(bucket string) string { return filepath.Join(w.dir, bucket+witnessSuffix) }

// compare compares every bucket that was witnessed with what was seen of it.
func (w *witness) compare(ctx context.Context, js jetstream.JetStream) error {
	files, err := os.ReadDir(w.dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	for _, file := range files {
		bucket, ok := strings.CutSuffix(file.Name(), witnessSuffix)
		if !ok {
			continue
		}
		if err := w.compareBucket(ctx, js, bucket); err != nil {
			return err
		}
	}
	return nil
}

func (w *witness) compareBucket(ctx context.Context, js jetstream.JetStream, bucket string) error {
	seen, err := readWitnessFile(w.path(bucket))
	if err != nil {
		return w.damaged("%v", err)
	}
	kv, err := js.KeyValue(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return w.damaged("bucket %s is missing", bucket)
	}
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	found, err := listRevisions(ctx, kv)
	if err != nil {
		return fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	for key, revision := range seen {
		if found[key] < revision {
			return w.damaged("key %s of bucket %s is at revision %d, but was seen at %d", key, bucket, found[key], revision)
		}
	}
	return nil
}

// damaged is the error for data that must not be served from.
func (w *witness) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %s: %s", ErrFolder, ErrDamaged, w.dir, fmt.Sprintf(format, args...))
}

// listRevisions returns the revision of every key, deleted ones included.
func listRevisions(ctx context.Context, kv jetstream.KeyValue) (revisions, error) {
	w, err := kvwatch.Open(ctx, kv)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r := make(revisions)
	for {
		entry, err := w.Next(ctx)
		if entry == nil || err != nil {
			return r, err
		}
		r[entry.Key()] = entry.Revision()
	}
}

// start begins to note what happens in the buckets, and returns when all that is in them
// has been noted. The connection is the witness's from here on.
func (w *witness) start(ctx context.Context, conn *nats.Conn, js jetstream.JetStream, buckets []string) error {
	var background context.Context
	background, w.cancel = context.WithCancel(context.Background())
	w.conn = conn
	ready := make(chan struct{}, len(buckets))
	for _, bucket := range buckets {
		first := sync.OnceFunc(func() { ready <- struct{}{} })
		w.running.Go(func() { w.watch(background, js, bucket, first) })
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

// stop ends what start began, and waits for it.
func (w *witness) stop() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	w.running.Wait()
	w.conn.Close()
}

// retryPause is how long a witness that failed waits until it goes on.
const retryPause = time.Second

// watch notes what happens in a bucket until ctx ends. It calls ready each time all that
// is in the bucket has been noted.
func (w *witness) watch(ctx context.Context, js jetstream.JetStream, bucket string, ready func()) {
	for ctx.Err() == nil {
		err := follow(ctx, js, bucket, newWitnessFile(w.path(bucket)), ready)
		if ctx.Err() == nil {
			w.log.Warn("witness of the data folder failed, trying again", zap.String("bucket", bucket), zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

// follow replaces the file by what is in the bucket, and then adds every change.
func follow(ctx context.Context, js jetstream.JetStream, bucket string, file *witnessFile, ready func()) (err error) {
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return err
	}
	entries, err := kvwatch.Open(ctx, kv)
	if err != nil {
		return err
	}
	defer entries.Close()
	defer func() { err = errors.Join(err, file.close()) }()
	for {
		entry, err := entries.Next(ctx)
		switch {
		case err != nil:
			return err
		case entry == nil:
			if err = file.rewrite(); err == nil {
				ready()
			}
		default:
			err = file.add(strings.Clone(entry.Key()), entry.Revision())
		}
		if err != nil {
			return err
		}
	}
}
