package leaf

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// CheckName refuses tags that the wire contract does not know. It makes sure as well
// that a tag needs no quoting, whatever character set a connection uses.
func CheckName(tag string) error {
	if err := messages.CheckTag(tag); err != nil {
		return fmt.Errorf("%w: %w", store.ErrBadTag, err)
	}
	return nil
}

// CheckReserve refuses arguments of Reserve and SetStep that are out of bounds.
func CheckReserve(tag string, step int64) error {
	if err := CheckName(tag); err != nil {
		return err
	}
	if step < 1 {
		return fmt.Errorf("%w: step %d, allowed is 1 or more", store.ErrBadTag, step)
	}
	return nil
}

// Highest is the highest max_id that can be raised by step.
func Highest(step int64) int64 { return math.MaxInt64 - step }

// Reserved is the segment of whoever raised max_id by step, to what it is now. The
// step has to be the one of the statement, not the one that is configured.
func Reserved(maxID, step int64) (store.Segment, error) {
	s := store.Segment{First: maxID - step, End: maxID}
	if !s.Valid() {
		return store.Segment{}, fmt.Errorf("%w: max_id is %d after it was raised by %d", store.ErrCorrupt, maxID, step)
	}
	return s, nil
}

// errChanged: the row was not as the statement wants it, and now it is.
var errChanged = errors.New("the row was changed meanwhile, try again")

// NotRaised says why a row whose max_id reads as it does was not raised by step.
func NotRaised(maxID *string, step int64) error {
	next, err := number("max_id", maxID)
	if err != nil {
		return err
	}
	if next < 1 {
		return fmt.Errorf("%w: max_id is %d, it has to be 1 or more", store.ErrCorrupt, next)
	}
	if _, err := store.Following(next, step); err != nil {
		return err
	}
	return errChanged
}

// Row makes a tag of the three columns as they are, in bounds or not. The error wraps
// ErrCorrupt.
func Row(bizTag, maxID, step *string) (store.Tag, error) {
	if bizTag == nil {
		return store.Tag{}, fmt.Errorf("%w: biz_tag is NULL", store.ErrCorrupt)
	}
	next, err := number("max_id", maxID)
	if err != nil {
		return store.Tag{}, fmt.Errorf("tag %.140q: %w", *bizTag, err)
	}
	configured, err := number("step", step)
	if err != nil {
		return store.Tag{}, fmt.Errorf("tag %.140q: %w", *bizTag, err)
	}
	return store.Tag{Name: *bizTag, Step: configured, Next: next}, nil
}

// number reads a column that may be NULL, or an unsigned one beyond 2^63.
func number(column string, value *string) (int64, error) {
	if value == nil {
		return 0, fmt.Errorf("%w: %s is NULL", store.ErrCorrupt, column)
	}
	n, err := strconv.ParseInt(*value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is %.40q, it has to be below 2^63", store.ErrCorrupt, column, *value)
	}
	return n, nil
}
