package order

import (
	"errors"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/idworker/idworker/internal/history"
)

// sequence models a strict tag: a number that every request raises. It ignores
// counts, and may skip.
var sequence = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, _, output any) (bool, any) {
		ranges := output.(history.Call).Ranges
		return ranges[0].First > state.(int64), ranges[len(ranges)-1].Last
	},
}

// ErrUndecided is wrapped by the error about a history that porcupine could not
// decide in time, because many calls overlap.
var ErrUndecided = errors.New("porcupine has not decided")

// Linearizable returns an error unless porcupine finds an order of the calls
// that explains their answers. It gives up, with [ErrUndecided], after the time
// given for each tag.
func Linearizable(calls []history.Call, within time.Duration) error {
	tags := make(map[string][]porcupine.Operation)
	for i, c := range calls {
		tags[c.Tag] = append(tags[c.Tag], porcupine.Operation{ClientId: i, Output: c, Call: int64(c.Sent), Return: int64(c.Received)})
	}
	for tag, operations := range tags {
		switch porcupine.CheckOperationsTimeout(sequence, operations, within) {
		case porcupine.Illegal:
			return fmt.Errorf("NOT LINEARIZABLE: %d calls of %s", len(operations), tag)
		case porcupine.Unknown:
			return fmt.Errorf("%w: %d calls of %s", ErrUndecided, len(operations), tag)
		}
	}
	return nil
}
