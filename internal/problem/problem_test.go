package problem_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/idworker/idworker/internal/problem"
)

// In yields the problems within an error, the outermost first, and errors.Is
// still finds wrapped errors.
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
	for p := range problem.In(err) {
		if kind, _ := p.Problem(); kind != "outer" {
			t.Errorf("the outermost is %s", kind)
		}
		break
	}
	for p := range problem.In(nil) {
		t.Errorf("%v of nil", p)
	}
}

// Parts splits joined errors, but not an error that wraps several.
func TestParts(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	for want, err := range map[int]error{0: nil, 1: fmt.Errorf("%w: %w", a, b), 2: errors.Join(a, b)} {
		if got := problem.Parts(err); len(got) != want {
			t.Errorf("%v: %v, want %d", err, got, want)
		}
	}
}
