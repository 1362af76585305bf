package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/position"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register/internal/guard"
)

var (
	// ErrWitness is wrapped by every error about an unusable witness.
	ErrWitness = errors.New("witness cannot be used")

	// ErrForeignWitness is the ErrWitness of a file about another register.
	ErrForeignWitness = problem.New(problem.WitnessUnusable, "it is the witness of another register")

	errNoWitness = problem.New(problem.WitnessUnusable, "it is no witness")
)

// Witness is a small file, outside the data that it is evidence of, with the
// highest sequence that was seen in each of some buckets. A bucket restored to
// an older state looks like any other; the file shows that it once held more.
//
// It is written once a second at most, and at a clean stop. If the last process
// that has it crashes, the last second is missing. Each process has its own
// file.
type Witness struct {
	path string

	mu      sync.Mutex
	buckets map[string]guard.Record
	exists  bool
	// The file lacks what buckets has.
	unwritten bool
}

// OpenWitness reads a witness. The first note creates a missing file. Errors
// wrap [ErrWitness].
//
// Others are witnesses of other processes, which may have ended. They are only
// read, and what they have seen counts as seen.
func OpenWitness(path string, others ...string) (*Witness, error) {
	w := &Witness{path: path}
	var err error
	if w.buckets, w.exists, err = readWitness(path); err != nil {
		return nil, w.failed(err)
	}
	for _, other := range others {
		more, _, err := readWitness(other)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrWitness, other, err)
		}
		for bucket, seen := range more {
			w.buckets[bucket] = w.buckets[bucket].Join(seen)
		}
	}
	return w, nil
}

func readWitness(path string) (buckets map[string]guard.Record, exists bool, err error) {
	buckets = make(map[string]guard.Record)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return buckets, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if err := json.Unmarshal(data, &buckets); err != nil {
		return nil, false, fmt.Errorf("%w: %w", errNoWitness, err)
	}
	return buckets, true, nil
}

func (w *Witness) failed(err error) error { return fmt.Errorf("%w: %s: %w", ErrWitness, w.path, err) }

// Path returns the path of the file.
func (w *Witness) Path() string { return w.path }

// Fresh reports whether there is no file yet.
func (w *Witness) Fresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.exists
}

// Floor returns the lowest first ID of new tags that the witness has noted of a
// register, 0 if none, and when it last noted anything.
func (w *Witness) Floor(p messages.Prefix) (floor int64, noted time.Time, err error) {
	info, err := os.Stat(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, noted, nil
	}
	if err != nil {
		return 0, noted, w.failed(err)
	}
	return w.record(BucketName(p)).First, info.ModTime(), nil
}

// record returns the record about a bucket.
func (w *Witness) record(bucket string) guard.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.buckets[bucket]
	return r.Clone()
}

// note writes evidence where it has changed.
func (w *Witness) note(all map[string]guard.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := !w.exists || w.unwritten
	for bucket, e := range all {
		old := w.buckets[bucket]
		changed = changed || old.Position != e.Position || old.Entries != e.Entries || old.First != e.First || len(old.Decisions) != len(e.Decisions) ||
			(old.Proof == nil) != (e.Proof == nil)
	}
	if !changed {
		return nil
	}
	maps.Copy(w.buckets, all)
	w.unwritten = true
	if err := w.write(w.buckets); err != nil {
		return w.failed(err)
	}
	w.unwritten, w.exists = false, true
	return nil
}

// Create writes the file if there is none. It is for new data.
func (w *Witness) Create() error { return w.note(nil) }

// write replaces the file with a synced file.
func (w *Witness) write(buckets map[string]guard.Record) error {
	data, err := json.Marshal(buckets)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(w.path), filepath.Base(w.path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), w.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(w.path))
}

// syncFolder makes a rename last over a power failure. Windows and some file
// systems cannot sync a folder, which is no error.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	if err = folder.Sync(); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, folder.Close())
}

// Compare checks that a register and the buckets beside it hold all that the
// witness has seen, or that an administrator has decided since. The error is a
// [*store.RegressionError] or [ErrForeignWitness], or JetStream is unreachable.
func (w *Witness) Compare(ctx context.Context, js jetstream.JetStream, p messages.Prefix, beside ...string) error {
	want, _, err := agreement.Lookup(ctx, js, p, ConfigKey)
	if err != nil {
		return err
	}
	known, err := w.recordOf(want, BucketName(p))
	if err != nil {
		return err
	}
	found, err := pollLeader(ctx, js, BucketName(p))
	if err != nil || found.Mark != "" {
		return err
	}
	switch decided, wrong := known.Compare(BucketName(p), found); {
	case wrong != nil:
		return wrong
	case decided:
		return nil
	}
	for _, bucket := range beside {
		if err := w.CompareBucket(ctx, js, bucket); err != nil {
			return err
		}
	}
	return nil
}

// recordOf returns the record about the register with an identity, or
// [ErrForeignWitness].
func (w *Witness) recordOf(id, bucket string) (guard.Record, error) {
	known := w.record(bucket)
	if known.ID != "" && id != "" && known.ID != id {
		return known, w.failed(ErrForeignWitness)
	}
	return known, nil
}

// CompareBucket is Compare for a bucket beside the register, whatever was
// decided.
func (w *Witness) CompareBucket(ctx context.Context, js jetstream.JetStream, bucket string) error {
	_, err := w.compareBucket(ctx, js, bucket)
	return err
}

func (w *Witness) compareBucket(ctx context.Context, js jetstream.JetStream, bucket string) (replicas int, err error) {
	found, err := pollLeader(ctx, js, bucket)
	known := w.record(bucket)
	if err != nil {
		return 0, err
	}
	switch {
	case known.Judge(found.Position) == position.WentBack:
		err = &store.RegressionError{Bucket: bucket, Seen: known.Last, Found: found.Last}
	case found.Entries < known.Entries:
		err = &store.RegressionError{Bucket: bucket, Reason: fmt.Sprintf("lost entries: has %d, had %d", found.Entries, known.Entries)}
	}
	return max(1, found.Replicas), err
}

// besideRecord is the record about a bucket beside the register, of which more may
// have been known.
func besideRecord(found guard.Poll, known guard.Record) guard.Record {
	return guard.Record{Position: position.Position{Last: max(found.Last, known.Last)}, Entries: max(found.Entries, known.Entries)}
}

// Lacks reports whether a register holds entries that the witness has no
// evidence of.
func (w *Witness) Lacks(ctx context.Context, js jetstream.JetStream, p messages.Prefix) (bool, error) {
	found, err := pollLeader(ctx, js, BucketName(p))
	return found.Last > 0 && w.record(BucketName(p)).ID == "", err
}

// Accept makes the present state of the register and the buckets beside it the
// evidence, after a decision. The error is a [*store.RegressionError] if the
// lowest first ID of new tags is below that of the witness, or if the witness
// does not have the decision and its lowest first ID is the same: the register
// was put back to before another decision, and has to be raised once more.
func (w *Witness) Accept(ctx context.Context, js jetstream.JetStream, p messages.Prefix, beside ...string) error {
	known := w.record(BucketName(p))
	found, err := pollLeader(ctx, js, BucketName(p))
	if err != nil {
		return err
	}
	if err := known.Accept(BucketName(p), found); err != nil {
		return err
	}
	return w.accept(ctx, js, BucketName(p), known, beside...)
}

// accept makes what was seen the record about a register, and the present state of the
// buckets beside it the record about them.
func (w *Witness) accept(ctx context.Context, js jetstream.JetStream, register string, seen guard.Record, beside ...string) error {
	all := map[string]guard.Record{register: seen}
	for _, bucket := range beside {
		found, err := pollLeader(ctx, js, bucket)
		if err != nil {
			return err
		}
		r := besideRecord(found, guard.Record{})
		r.First = seen.First
		all[bucket] = r
	}
	return w.note(all)
}
