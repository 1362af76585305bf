package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idworker/idworker/internal/nonce"
)

// cell is the key of a lease, as the process writes it that has the lease. It is for use by one
// goroutine.
type cell struct {
	bucket   bucket
	now      clock
	learn    func(record)  // is told what is in the entry
	limit    time.Duration // for each call
	key      string
	revision uint64 // the condition of the next write
	owned    bool   // revision is that of a write of this process

	// sent are the writes that this process may find in the entry: the last one known to be done,
	// and those since of unknown outcome. They are named by their numbers, with the time at which
	// each began.
	sent map[string]int64

	done   int64 // when the last write that is known to be done began
	absent int   // how often in a row the entry was refused and then not found
}

// errOver says that the lease is over, or that a claim met another's lease.
var errOver = errors.New("the lease is another's, or has ended")

// maxAbsent is how often in a row a lease may be refused and then not be found. A replica that
// lags may not have it yet; a bucket that was made again never has it.
const maxAbsent = 3

// write writes v under a fresh number. After an error, the lease may have been renewed all the
// same, by an earlier write: done says so. errOver is final.
func (c *cell) write(ctx context.Context, v leaseValue) error {
	v.Write = nonce.New()
	c.sent[v.Write] = c.now()
	err := c.send(ctx, v)
	if err == nil {
		return nil
	}
	found, readErr := c.reread(ctx)
	if readErr != nil {
		return c.judge(err, readErr)
	}
	if found == v.Write {
		return nil // the answer was lost
	}
	return err
}

func (c *cell) send(ctx context.Context, v leaseValue) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	value := encode(v)
	revision, err := c.bucket.write(ctx, c.key, value, c.revision)
	if err == nil {
		c.learn(record{c.key, value, revision})
		c.adopt(revision, v.Write)
	}
	return err
}

// judge joins the errors of a write and of the read after it.
func (c *cell) judge(err, readErr error) error {
	if !errors.Is(err, errConflict) || !errors.Is(readErr, errAbsent) {
		c.absent = 0
	} else if c.absent++; c.absent >= maxAbsent {
		readErr = fmt.Errorf("%w: %w", errOver, readErr)
	}
	return fmt.Errorf("%w, after a failed write: %w", readErr, err)
}

// reread finds out what became of the writes, and returns the number of the one that it found, if it is
// news. The entry counts as this process's own only if it has the number of a write that this process
// has sent: a copy of the process would have written the same in all else.
func (c *cell) reread(ctx context.Context) (number string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	found, err := c.bucket.read(ctx, c.key)
	if err != nil {
		return "", err
	}
	c.learn(found)
	if found.revision <= c.revision {
		return "", nil // as it was, or an old read
	}
	v, err := decodeLease(found.value)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errOver, err)
	}
	if _, ours := c.sent[v.Write]; !ours {
		return "", fmt.Errorf("%w: instance %s, life %d, ended %q", errOver, v.Instance, v.Life, v.Ended)
	}
	c.adopt(found.revision, v.Write)
	return v.Write, nil
}

// adopt takes over the revision of a value that this process has sent. What it sent before cannot
// arrive any more: its condition is an older revision.
func (c *cell) adopt(revision uint64, number string) {
	c.revision, c.owned, c.done, c.absent = revision, true, c.sent[number], 0
	for other, began := range c.sent {
		if began < c.done {
			delete(c.sent, other)
		}
	}
}
