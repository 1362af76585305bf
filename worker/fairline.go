package worker

import "time"

// firstShare is the part of a window, and of a loader's turns, that first uses of templates may have at a
// time. Names can be made up, so first uses are kept apart from what tags need that exist.
const firstShare = 2

// fairLine is a queue of first uses in which templates have turns: a thousand of one of them do not hold up
// the single one of another. Those of one template keep their order. The zero value is ready for use.
type fairLine[T ranked] struct {
	queue priority[T]
	last  map[string]int64 // the place of each template's latest
	round int64            // of what was taken last
}

func (f *fairLine[T]) len() int { return f.queue.len() }

func (f *fairLine[T]) push(x T, template string) {
	if f.last == nil {
		f.last = make(map[string]int64)
	}
	place := max(f.round, f.last[template]) + 1
	f.last[template] = place
	f.queue.push(x, time.Unix(0, place))
}

func (f *fairLine[T]) pop() T {
	x := f.queue.pop()
	f.round = x.stand().at.UnixNano()
	if f.len() == 0 {
		clear(f.last)
	}
	return x
}
