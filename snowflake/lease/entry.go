package lease

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/idworker/idworker/internal/position"
)

// ownEntry is a key of a bucket as seen by the hold that writes it. A hold has
// two: the lease, and the fence in the clock bucket.
type ownEntry struct {
	bucket bucket
	key    string
	hold   string                           // the ID of the hold
	stamp  func(bucketEntry) (stamp, error) // reads the writer of a value
	// The condition of the next write: as listed, 0 for none, or ours.
	revision uint64
	// Whether revision is that of a value that this process has sent.
	owned bool
	// The highest revision of such a value; a read of a lower one is stale.
	highest uint64

	// sent are the numbers of this process's writes that the entry may contain:
	// of the write at revision, and of the latest maxSent writes whose outcome
	// is unknown. A successful heartbeat leaves one. Without the number of a
	// write that arrives even later, the entry passes for another holder's.
	sent []string

	// known is how far the bucket is known to have come. An accepted write is
	// above it, unless the stream regressed.
	known position.Position
}

const maxSent = 1000

// stamp identifies the writer of a value.
type stamp struct{ hold, write string }

var (
	// errGone: the entry was deleted, or expired. No other holder is known.
	errGone = fmt.Errorf("%w: its entry is gone", ErrLost)

	// errUntouched: the entry is still as it was listed, or the read is older
	// than the list.
	errUntouched = fmt.Errorf("%w: another holder has its entry", ErrLost)

	// errStale: a read older than our last write shows another holder's entry.
	errStale = fmt.Errorf("%w: another holder had its entry", ErrLost)

	// errUnsure: a read found no entry, or only a state before our last write,
	// and the write's condition did not fail. So no other holder is known: the
	// bucket may accept no writes at all. The entry may still exist, too: a
	// replica that was paused may have expired it without its renewal.
	errUnsure = errors.New("entry holder unknown")

	// errOlder: the entry is ours, but not the value just written.
	errOlder = errors.New("the entry still has an older value of this hold")

	// errBehind: a read returned an older state than was seen before. Either
	// the replica lags, or the bucket regressed.
	errBehind = errors.New("read an older state than before")
)

// write writes value, which contains number, if the entry is still at the known
// revision. After any error it rereads the entry, since the write may have
// succeeded. It returns the value of ours that the entry is known to contain,
// and an error unless that is value: ErrLost if the entry is known to be
// another's.
func (e *ownEntry) write(ctx context.Context, number string, value []byte) ([]byte, error) {
	if e.sent = append(e.sent, number); len(e.sent) > maxSent {
		e.sent = slices.Delete(e.sent, 1, 2)
	}
	revision, err := e.bucket.update(ctx, e.key, value, e.revision)
	if err == nil {
		if revision <= e.known.Last {
			return nil, &ClockBackError{Last: revision, Known: e.known.Last}
		}
		e.adopt(revision, number)
		return value, nil
	}
	found, readErr := e.reread(ctx)
	if !errors.Is(err, errConflict) && (errors.Is(readErr, errGone) || errors.Is(readErr, errUntouched) || errors.Is(readErr, errStale)) {
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

// reread returns the entry's value, which this process has sent, and adopts its
// revision. ErrLost means that the entry is gone or another holder's. The other
// holder may be a copy of this process, with all its memory: only the number
// distinguishes the two.
func (e *ownEntry) reread(ctx context.Context) ([]byte, error) {
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
	case err == nil && by.hold != e.hold && e.owned && found.revision < e.highest:
		return nil, errStale
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

// adopt takes over the revision of a value that this process has sent. Writes
// that were sent before it cannot arrive any more: their condition is an older
// revision.
func (e *ownEntry) adopt(revision uint64, number string) {
	e.revision, e.owned, e.highest, e.known.Last = revision, true, revision, max(e.known.Last, revision)
	e.sent = slices.Delete(e.sent, 0, slices.Index(e.sent, number))
}

// recreate writes value, which contains number, if the entry was ours and is
// gone: at a deletion marker's revision, or 0. Until the write is confirmed, the
// entry keeps its state.
func (e *ownEntry) recreate(ctx context.Context, number string, value []byte, over uint64) error {
	gone := e.revision
	// A bucket whose entries expire may lose its history.
	e.revision, e.known.Last = over, 0
	_, err := e.write(ctx, number, value)
	if err != nil && e.revision == over {
		e.revision = gone
	}
	return err
}

// remove deletes the entry unless it is gone or another holder's. If an earlier
// write of ours arrived late, the revision differs, hence the second attempt.
func (e *ownEntry) remove(ctx context.Context) error {
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

// newNonce returns a random number of 128 bits, as text, by which a process
// recognizes its own writes. A copy of this process, such as a resumed
// snapshot, must not draw the same number. So half of it comes from the
// kernel's device: crypto/rand may take its bytes from memory that was copied
// along with the process (the vDSO of Linux).
func newNonce() string {
	var number [16]byte
	_, _ = rand.Read(number[:]) // never fails
	if device, err := os.Open("/dev/urandom"); err == nil {
		// Not everywhere; then crypto/rand's bytes stay.
		_, _ = io.ReadFull(device, number[:8])
		_ = device.Close()
	}
	return hex.EncodeToString(number[:])
}
