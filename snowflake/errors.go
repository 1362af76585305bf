package snowflake

import (
	"errors"

	"github.com/idworker/idworker/internal/problem"
)

// The reasons why a [Generator] issues no ID. They are returned unwrapped, so
// that a refusal costs as little as an ID.
var (
	// ErrAhead: the IDs would be further ahead of the clock than MaxAhead
	// allows, because the layout has no room for that many, or because the
	// clock is behind. It passes with time.
	ErrAhead = errors.New("snowflake: too far ahead of the clock")

	// ErrEpoch: the clock is before the layout's epoch. It passes with time.
	ErrEpoch = problem.New(problem.EpochAhead, "snowflake: the epoch is after now")

	// ErrFenced: the timestamp is not below the fence. It passes if Extend
	// raises the fence.
	ErrFenced = errors.New("snowflake: time is not below the fence")

	// ErrRevoked: the generator was revoked. It does not pass.
	ErrRevoked = errors.New("snowflake: worker ID was revoked")

	// ErrExhausted: the lifetime of the layout is over. It does not pass.
	ErrExhausted = errors.New("snowflake: the layout's lifetime is over")
)

// The errors about arguments. They are wrapped with the invalid argument and
// its bounds.
var (
	// ErrLayout: the layout does not make 63 bits, or 53, or is otherwise out
	// of bounds, or its text cannot be read.
	ErrLayout = errors.New("snowflake: bad layout")

	// ErrSettings: a worker ID, datacenter or limit out of bounds.
	ErrSettings = errors.New("snowflake: bad settings")

	// ErrID: the text is not an ID.
	ErrID = problem.New(problem.Invalid, "snowflake: malformed ID")

	// ErrTime: the layout has no IDs of that time: it is before the epoch, or
	// not before the end.
	ErrTime = problem.New(problem.Invalid, "snowflake: time outside the layout")

	// ErrCount: the count is below 1.
	ErrCount = errors.New("snowflake: count below 1")
)
