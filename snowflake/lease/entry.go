package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// entry is one key of a bucket, as the hold that writes it knows it. A hold has two:
// the lease, and the fence in the clock bucket.
type entry struct {
	bucket   bucket
	key      string
	hold     string                      // the ID of the hold
	stamp    func(record) (stamp, error) // reads who wrote a value
	revision uint64                      // the condition of the next write: as listed, 0 for none, or ours
	owned    bool                        // revision is that of a value that this process has sent

	// sent are the numbers of the writes of this process that may be found in the
	// entry: of the one at revision, and of those sent since, whose outcome is unknown.
	// A heartbeat that succeeds leaves one. Those that fail add one each, and a hold
	// bears that for as long as its fence reaches, so there are some hundreds at most.
	sent []string

	// reached is a sequence that the bucket's stream is known to have reached. An accepted
	// write is beyond it, unless the stream went back.
	reached uint64
}

// stamp says who has written a value.
type stamp struct{ hold, write string }

var (
	// errGone: the entry was deleted, or expired. Nobody is known to have taken its place.
	errGone = fmt.Errorf("%w: its entry is gone", ErrLost)

	// errUntouched: the entry is still as it was listed, or the read is older than the list.
	errUntouched = fmt.Errorf("%w: another holder has its entry", ErrLost)

	// errUnsure: a read did not find the entry, or found only what was there before the claim, and
	// the write was not refused because of its condition. So nobody is known to have been faster:
	// the bucket may take no writes at all. Nor is our entry known to be gone: a replica that was
	// paused may have let the entry expire that it did not see renewed.
	errUnsure = errors.New("entry holder unknown")

	// errOlder: the entry is ours, but not what was just written.
	errOlder = errors.New("the entry still has an older value of this hold")

	// errBehind: what was read is older than what is known to have been there. Either
	// the read is old, or the bucket went back.
	errBehind = errors.New("read an older state than before")
)

// write writes value, which carries that number, on condition that the entry is still at
// the known revision. After any error it rereads the entry, since the write may have been
// made all the same. It returns the value that is known to be there and to be ours, and an
// error unless that is value: ErrLost if the entry is known to be not ours.
func (e *entry) write(ctx context.Context, number string, value []byte) ([]byte, error) {
	e.sent = append(e.sent, number)
	revision, err := e.bucket.update(ctx, e.key, value, e.revision)
	if err == nil {
		if revision <= e.reached {
			return nil, &ClockBackError{Last: revision, Known: e.reached}
		}
		e.adopt(revision, number)
		return value, nil
	}
	found, readErr := e.reread(ctx)
	if !errors.Is(err, errConflict) && (errors.Is(readErr, errGone) || errors.Is(readErr, errUntouched)) {
		readErr = errUnsure
	}
	if readErr != nil {
		return nil, fmt.Errorf("%w, after a failed write: %w", readErr, err)
	}
	if !bytes.Equal(found, value) {
		return found, fmt.Errorf("%w: %w", err, errOlder)
	}
	return value, nil
}

// reread returns the value of the entry, which this process has sent, and takes over its
// revision. ErrLost says that the entry is gone or somebody else's. Somebody else may be a
// copy of this process, with all its memory: only the number tells the two apart.
func (e *entry) reread(ctx context.Context) ([]byte, error) {
	found, err := e.bucket.get(ctx, e.key)
	if errors.Is(err, errAbsent) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	by, err := e.stamp(found)
	switch {
	case !e.owned && found.revision <= e.revision:
		return nil, errUntouched
	case err != nil || by.hold != e.hold:
		return nil, fmt.Errorf("%w: another holder has its entry", ErrLost)
	case e.owned && found.revision < e.revision:
		return nil, errBehind
	case !slices.Contains(e.sent, by.write):
		return nil, fmt.Errorf("%w: a copy of this process wrote its entry", ErrLost)
	}
	e.adopt(found.revision, by.write)
	return found.value, nil
}

// adopt takes over the revision of a value that this process has sent. Writes that were sent
// before it cannot arrive any more: their condition is an older revision.
func (e *entry) adopt(revision uint64, number string) {
	e.revision, e.owned, e.reached = revision, true, max(e.reached, revision)
	e.sent = slices.Delete(e.sent, 0, slices.Index(e.sent, number))
}

// recreate writes value, which carries that number, if the entry, which is known to have been
// ours, is gone. Until it is known that it was written, the entry counts as it did before.
func (e *entry) recreate(ctx context.Context, number string, value []byte) error {
	gone := e.revision
	e.revision, e.reached = 0, 0 // a bucket whose entries expire may forget that it was there
	_, err := e.write(ctx, number, value)
	if err != nil && e.revision == 0 {
		e.revision = gone
	}
	return err
}

// remove deletes the entry unless it is gone or somebody else's. If an earlier write of
// ours arrived late, the entry is not at the known revision, hence the second attempt.
func (e *entry) remove(ctx context.Context) error {
	err := e.bucket.remove(ctx, e.key, e.revision)
	if !errors.Is(err, errConflict) {
		return err
	}
	_, err = e.reread(ctx)
	if errors.Is(err, ErrLost) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.bucket.remove(ctx, e.key, e.revision)
}
