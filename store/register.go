package store

import (
	"context"
	"time"
)

// Mark is what a register says of one tag.
type Mark struct {
	Tag      string
	End      int64  // everything below was given away; 0 if the entry is gone
	Step     int64  // the configured step, 0 if the register does not keep it
	Revision uint64 // of the entry; a later write has a higher one
	Own      bool   // this process wrote it, and knows that it did
	Answer   bool   // it is the answer to that write; what the watch shows may come later

	// Deleted says that the entry was deleted by hand, which a register may allow. It is no
	// evidence that anything was lost.
	Deleted bool
}

// Register is the place in JetStream that has the last word on how far each tag was given
// away: the ledger of a store in a database, or the bucket of the store in JetStream. Each
// write to it raises a tag, and each has a higher revision than the one before, unless
// somebody puts the register back or makes it again. Package guard watches for that.
type Register interface {
	// Watch calls see with the mark of each tag there is, then current, once, and then see
	// for every change, in the order of the changes, all from one goroutine. It returns
	// when ctx ends, or with the error that broke it off. The marks may come from a replica
	// that lags behind.
	//
	// A mark that this process wrote is not told before it is known to be its own: while a
	// write is under way the marks of that tag wait for its outcome. When the call that wrote
	// returns, its own mark has been told, and then those that were waiting.
	Watch(ctx context.Context, see func(Mark), current func()) error

	// Mark reads the mark of a tag from where it is written. An entry that is gone has the
	// end 0.
	Mark(ctx context.Context, tag string) (Mark, error)

	// Position returns the revision of the latest write, and when the register was made,
	// from where it is written.
	Position(ctx context.Context) (latest uint64, made time.Time, err error)

	// Restore writes a mark that the register has lost. A tag is never lowered.
	Restore(ctx context.Context, mark Mark) error

	// Restored says that every mark that was lost has been restored, as far as somebody
	// knows who had watched the register without a gap.
	Restored(ctx context.Context) error
}
