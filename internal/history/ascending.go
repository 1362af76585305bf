package history

import (
	"fmt"
	"sort"
	"time"
)

// longest is how long ago a request may have been sent whose answer is compared with all before it. Older
// ones are compared with those that came before that time at the latest, which may miss a fault and
// invents none.
const longest = time.Minute

// ascending checks online that each answer is above all that had been received when its request was sent.
// Answers are added in the order in which they were received. It keeps 16 bytes for each answer of the
// last minute.
type ascending struct {
	highest map[string][]received // by what is in order; times and IDs ascend
}

// received is the answer that had the highest ID when it came.
type received struct {
	at   time.Duration
	last int64
}

// add looks at an answer, and returns an error if it is not above those before it.
func (a *ascending) add(key string, c *Call) (err error) {
	if a.highest == nil {
		a.highest = make(map[string][]received)
	}
	list := a.highest[key]
	if i := sort.Search(len(list), func(i int) bool { return list[i].at >= c.Sent }); i > 0 && list[i-1].last >= c.first() {
		err = fmt.Errorf("%w: %v, sent %v after %d was received", ErrOrder, c, c.Sent-list[i-1].at, list[i-1].last)
	}
	if len(list) == 0 || list[len(list)-1].last < c.last() {
		list = append(list, received{c.Received, c.last()})
	}
	// The last one that is too old stays.
	old := sort.Search(len(list), func(i int) bool { return list[i].at >= c.Received-longest }) - 1
	if old > len(list)/2 {
		list = append([]received(nil), list[old:]...)
	}
	a.highest[key] = list
	return err
}
