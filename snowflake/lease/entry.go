package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// entry is one key of a bucket, as the hold that writes it knows it. A hold has two:
// the lease, and the fence in the clock bucket.
type entry struct {
	bucket   bucket
	key      string
	revision uint64            // at which the entry is as it was listed, or ours; 0 if there was none
	ours     func(record) bool // recognises a value that this hold has written
}

// errOlder: the entry is ours, but not what was just written.
var errOlder = errors.New("an older value of this hold is still there")

// write writes value on condition that the entry is still at the known revision. After
// any error it rereads the entry, since the write may have been made all the same. It
// returns the value that is known to be there and to be ours, and an error unless that
// is value: ErrLost if the entry is not ours.
func (e *entry) write(ctx context.Context, value []byte) ([]byte, error) {
	revision, err := e.bucket.update(ctx, e.key, value, e.revision)
	if err == nil {
		e.revision = revision
		return value, nil
	}
	found, readErr := e.reread(ctx)
	if readErr != nil {
		return nil, fmt.Errorf("%w, after a failed write: %w", readErr, err)
	}
	if !bytes.Equal(found, value) {
		return found, fmt.Errorf("%w: %w", err, errOlder)
	}
	return value, nil
}

// reread returns the value of the entry, which is ours, and takes over its revision.
// ErrLost says that the entry is gone or somebody else's.
func (e *entry) reread(ctx context.Context) ([]byte, error) {
	found, err := e.bucket.get(ctx, e.key)
	switch {
	case errors.Is(err, errAbsent):
		return nil, fmt.Errorf("%w: its entry is gone", ErrLost)
	case err != nil:
		return nil, err
	case !e.ours(found):
		return nil, fmt.Errorf("%w: its entry is another holder's", ErrLost)
	}
	e.revision = found.revision
	return found.value, nil
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
