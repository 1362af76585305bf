package order

import (
	"errors"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// sequence models a strict tag: a number that every request raises. It ignores
// counts, and may skip.
var sequence = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, _, output any) (bool, any) {
		c := output.(Call)
		return c.first() > state.(int64), c.last()
	},
	DescribeOperation: func(_, output any) string { return output.(Call).String() },
}

// ErrUndecided is wrapped by the error about a history that porcupine could not
// decide in time, because many calls overlap.
var ErrUndecided = errors.New("porcupine has not decided")

// Linearizable returns an error unless porcupine finds an order of the calls
// that explains their answers. It gives up, with [ErrUndecided], after the time
// given for each tag.
func Linearizable(history []Call, within time.Duration) error {
	for tag, calls := range byTag(history) {
		begin := calls[0].Sent
		var operations []porcupine.Operation
		for i, c := range calls {
			operations = append(operations, porcupine.Operation{
				ClientId: i, Output: c, Call: int64(c.Sent.Sub(begin)), Return: int64(c.Received.Sub(begin)),
			})
		}
		switch porcupine.CheckOperationsTimeout(sequence, operations, within) {
		case porcupine.Illegal:
			return fmt.Errorf("NOT LINEARIZABLE: %d calls of %s", len(calls), tag)
		case porcupine.Unknown:
			return fmt.Errorf("%w: %d calls of %s", ErrUndecided, len(calls), tag)
		}
	}
	return nil
}
