package problem_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/idworker/idworker/internal/problem"
)

// The problems within an error are found, the outermost first, and what has a kind is still what it was.
func TestIn(t *testing.T) {
	inner, other := problem.New("inner", "a"), problem.New("other", "b")
	err := fmt.Errorf("start: %w", problem.Wrap("outer", errors.Join(errors.New("plain"), fmt.Errorf("x: %w", inner), other)))
	var kinds []problem.Kind
	for p := range problem.In(err) {
		kind, _ := p.Problem()
		kinds = append(kinds, kind)
	}
	if !slices.Equal(kinds, []problem.Kind{"outer", "inner", "other"}) || !errors.Is(err, inner) || !errors.Is(err, other) {
		t.Errorf("%v", kinds)
	}
	for range problem.In(err) {
		break
	}
	for range problem.In(nil) {
		t.Error("nil is no problem")
	}
}

// What was joined comes apart; what only wraps several errors does not.
func TestParts(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	for want, err := range map[int]error{0: nil, 1: fmt.Errorf("%w: %w", a, b), 2: errors.Join(a, b)} {
		if got := problem.Parts(err); len(got) != want {
			t.Errorf("%v: %v, want %d", err, got, want)
		}
	}
}
