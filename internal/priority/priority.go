// Package priority has a queue ordered by time.
package priority

import "time"

// Place is the place of a value in one queue. A value that waits in several
// queues has a place for each.
type Place[T any] struct {
	Value T

	at    time.Duration
	index int // in the queue, from 1; 0 if in none
}

// Queued reports whether the place is in a queue.
func (p *Place[T]) Queued() bool { return p.index > 0 }

// At is the time of the place in its queue.
func (p *Place[T]) At() time.Duration { return p.at }

// Queue holds places, the earliest first. Times are measured from a moment that
// its owner chooses. The zero value is empty.
type Queue[T any] struct{ places []*Place[T] }

// Len is the number of places.
func (q *Queue[T]) Len() int { return len(q.places) }

// First returns the earliest place; nil if the queue is empty.
func (q *Queue[T]) First() *Place[T] {
	if len(q.places) == 0 {
		return nil
	}
	return q.places[0]
}

// Put adds a place that is in no queue, or moves one of this queue.
func (q *Queue[T]) Put(p *Place[T], at time.Duration) {
	if p.at = at; p.index == 0 {
		q.places = append(q.places, p)
		p.index = len(q.places)
	}
	q.settle(p)
}

// Remove removes a place of the queue, or of none.
func (q *Queue[T]) Remove(p *Place[T]) {
	if p.index == 0 {
		return
	}
	end := len(q.places) - 1
	last := q.places[end]
	q.places[end] = nil
	if q.places = q.places[:end]; last != p {
		last.index = p.index
		q.settle(last)
	}
	p.index = 0
}

// settle moves a place to where its time belongs: the heap rule is that no
// place is earlier than its parent, at half the index.
func (q *Queue[T]) settle(p *Place[T]) {
	i := p.index
	for ; i > 1 && p.at < q.places[i/2-1].at; i /= 2 {
		q.set(i, q.places[i/2-1])
	}
	for child := 2 * i; child <= len(q.places); child = 2 * i {
		if child < len(q.places) && q.places[child].at < q.places[child-1].at {
			child++
		}
		if p.at <= q.places[child-1].at {
			break
		}
		q.set(i, q.places[child-1])
		i = child
	}
	q.set(i, p)
}

func (q *Queue[T]) set(index int, p *Place[T]) { q.places[index-1], p.index = p, index }
