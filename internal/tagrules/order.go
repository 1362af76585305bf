package tagrules

import (
	"errors"
	"fmt"
)

// Order is the order in which a tag's IDs go up.
type Order string

// The orders.
const (
	Trend  Order = "trend"  // those of one worker go up
	Strict Order = "strict" // each is higher than all that were answered before it was asked for
)

// ErrOrder is wrapped by the error about an order that there is not.
var ErrOrder = errors.New("unknown order")

// Check returns an error that wraps [ErrOrder] unless it is one of the orders.
func (o Order) Check() error {
	if o != Trend && o != Strict {
		return fmt.Errorf("%w %q, allowed are %s and %s", ErrOrder, string(o), Trend, Strict)
	}
	return nil
}
