// Package getting is the command idworker get, but for how it connects and what its arguments mean.
package getting

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// Next asks for n IDs at once.
type Next func(ctx context.Context, n int64) ([]messages.Range, error)

// largest finds in a worker's answer how many IDs may be asked for at once. Only workers know.
var largest = regexp.MustCompile(`a decimal from 1 to (\d+)`)

// Get asks for n IDs, as few times as workers allow, and passes them on as they come. Each request may take
// for timeout, but the first one fails earlier if there is nobody to ask. After an error there are fewer.
func Get(ctx context.Context, next Next, n int64, timeout time.Duration, add func([]messages.Range)) error {
	batch := n
	for first := true; n > 0; first = false {
		ask := next
		if first {
			ask = Briefly(next)
		}
		try, cancel := context.WithTimeout(ctx, timeout)
		ranges, err := ask(try, min(n, batch))
		cancel()
		if limit := LimitIn(err); limit > 0 && limit < min(n, batch) {
			batch = limit // of the worker that answered; others may have another
			continue
		}
		if err != nil {
			return err
		}
		n -= min(n, batch)
		add(ranges)
	}
	return nil
}

// LimitIn reads the largest batch from the error of a request for more, 0 if it is another error.
func LimitIn(err error) int64 {
	if !errors.Is(err, messages.ErrMalformed) {
		return 0
	}
	found := largest.FindStringSubmatch(err.Error())
	if found == nil {
		return 0
	}
	limit, _ := strconv.ParseInt(found[1], 10, 64) // 0 if it is no number
	return limit
}

// nobodyFor is how long a worker is looked for: longer than a restart leaves the queue group empty, but not
// so long that someone who forgot to start one is left wondering.
const nobodyFor = time.Second

// Briefly is a Next that asks, but fails soon if there is nobody to ask.
func Briefly(next Next) Next {
	return func(ctx context.Context, n int64) ([]messages.Range, error) {
		short, cancel := context.WithTimeout(ctx, nobodyFor)
		defer cancel()
		ranges, err := next(short, n)
		if err == nil || short.Err() == nil || ctx.Err() != nil || errors.Is(err, nats.ErrNoResponders) {
			return ranges, err
		}
		return next(ctx, n)
	}
}
