package leaf

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// CheckName refuses tags that are malformed under the wire contract. It also makes sure
// that a tag needs no quoting, whatever character set a connection uses. The error wraps
// store.ErrBadTag.
func CheckName(tag string) error {
	if err := messages.CheckTag(tag); err != nil {
		return fmt.Errorf("%w: %w", store.ErrBadTag, err)
	}
	return nil
}

// CheckTagAndStep refuses arguments of Reserve and SetStep that are out of bounds. The
// error wraps store.ErrBadTag.
func CheckTagAndStep(tag string, step int64) error {
	if err := CheckName(tag); err != nil {
		return err
	}
	if step < 1 {
		return fmt.Errorf("%w: step %d, allowed is 1 or more", store.ErrBadTag, step)
	}
	return nil
}

// CheckTagAndNext refuses arguments of Raise that are out of bounds. The error wraps
// store.ErrBadTag.
func CheckTagAndNext(tag string, next int64) error {
	if err := CheckName(tag); err != nil {
		return err
	}
	if next < 1 {
		return fmt.Errorf("%w: first ID %d, allowed is 1 or more", store.ErrBadTag, next)
	}
	return nil
}

// HighestMaxID is the highest max_id that can be raised by step.
func HighestMaxID(step int64) int64 { return math.MaxInt64 - step }

// SegmentBelow returns the segment of the caller that raised max_id by step, to the value
// given. The step has to be that of the statement, not the configured one. The error
// wraps store.ErrCorrupt.
func SegmentBelow(maxID, step int64) (store.Segment, error) {
	s := store.Segment{First: maxID - step, End: maxID}
	if !s.Valid() {
		return store.Segment{}, fmt.Errorf("%w: max_id is %d after it was raised by %d", store.ErrCorrupt, maxID, step)
	}
	return s, nil
}

// errChanged: the row did not meet the statement's condition, and now it does.
var errChanged = errors.New("the row was changed in the meantime, try again")

// ExplainNotRaised says why a row with that max_id was not raised by step: store.ErrCorrupt,
// store.ErrExhausted, or an error after which the call may be made again.
func ExplainNotRaised(maxID *string, step int64) error {
	next, err := parseMaxID(maxID)
	if err != nil {
		return err
	}
	if _, err := store.Following(next, step); err != nil {
		return err
	}
	return errChanged
}

// ExplainNotRaisedTo says why a row with that max_id was not raised to next: nil if it need
// not be, store.ErrCorrupt, or an error after which the call may be made again.
func ExplainNotRaisedTo(maxID *string, next int64) error {
	have, err := parseMaxID(maxID)
	if err != nil {
		return err
	}
	if have < next {
		return errChanged
	}
	return nil
}

// TooNarrow is the error of a Raise to more than the column holds.
func TooNarrow(next int64, err error) error {
	return fmt.Errorf("%w: the column max_id is too narrow for %d, it should be BIGINT: %w", store.ErrSetup, next, err)
}

// ErrRows is the store.ErrCorrupt of a tag that more than one row has.
func ErrRows(rows int64) error {
	return fmt.Errorf("%w: %d rows have this biz_tag; it must be the primary key or have a unique key", store.ErrCorrupt, rows)
}

// parseMaxID reads a max_id from which can be counted.
func parseMaxID(maxID *string) (int64, error) {
	n, err := parseNumber("max_id", maxID)
	if err == nil && n < 1 {
		err = fmt.Errorf("%w: max_id is %d, it must be 1 or more", store.ErrCorrupt, n)
	}
	return n, err
}

// TagFromRow makes a tag of the three columns as they are, in bounds or not. The error
// wraps store.ErrCorrupt, and is a store.EntryError if the row has a name.
func TagFromRow(bizTag, maxID, step *string) (store.Tag, error) {
	if bizTag == nil {
		return store.Tag{}, fmt.Errorf("%w: biz_tag is NULL", store.ErrCorrupt)
	}
	next, err := parseNumber("max_id", maxID)
	if err != nil {
		return store.Tag{}, rowError(*bizTag, err)
	}
	configured, err := parseNumber("step", step)
	if err != nil {
		return store.Tag{}, rowError(*bizTag, err)
	}
	return store.Tag{Name: *bizTag, Step: configured, Next: next}, nil
}

func rowError(bizTag string, err error) error {
	return &store.EntryError{Tag: bizTag, Err: fmt.Errorf("tag %.140q: %w", bizTag, err)}
}

// parseNumber reads a column that may be NULL, or unsigned and beyond 2^63.
func parseNumber(column string, value *string) (int64, error) {
	if value == nil {
		return 0, fmt.Errorf("%w: %s is NULL", store.ErrCorrupt, column)
	}
	n, err := strconv.ParseInt(*value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is %.40q, it must be below 2^63", store.ErrCorrupt, column, *value)
	}
	return n, nil
}
