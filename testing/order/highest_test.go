package order

import (
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
)

// TestHighestAnswerCounts: of two overlapping answers, the first to arrive has
// the higher ID. A later request's ID lies between them, which only the first
// answer disproves.
func TestHighestAnswerCounts(t *testing.T) {
	start := time.Now()
	call := func(sent, received time.Duration, id int64) Call {
		return Call{"order", start.Add(sent), start.Add(received), 1, []messages.Range{{First: id, Last: id}}}
	}
	history := []Call{call(0, 1, 10), call(0, 2, 5), call(3, 4, 7)}
	if err := Check(history); err == nil {
		t.Error("7 after 10 passes")
	}
	if err := Check(append(history[:2:2], call(3, 4, 11))); err != nil {
		t.Error(err)
	}
}
