// Package priority has a queue ordered by time.
package priority

import (
	"container/heap"
	"time"
)

// Place is an element's place in a queue. Elements embed it.
type Place struct {
	at    time.Time
	index int // in the queue, from 1; 0 if in none
}

// Queued reports whether the element is in a queue.
func (p *Place) Queued() bool { return p.index > 0 }

// At is the time of the element in its queue.
func (p *Place) At() time.Time { return p.at }

func (p *Place) place() *Place { return p }

// Element is a pointer to a struct that embeds a [Place].
type Element interface{ place() *Place }

// Queue is a priority queue. The zero value is empty.
type Queue[T Element] struct{ items items[T] }

// Len is the number of elements.
func (q *Queue[T]) Len() int { return len(q.items) }

// First returns the earliest element. The queue must not be empty.
func (q *Queue[T]) First() T { return q.items[0] }

// Push adds an element that is in no queue.
func (q *Queue[T]) Push(x T, at time.Time) {
	x.place().at = at
	heap.Push(&q.items, x)
}

// Pop removes and returns the earliest element. The queue must not be empty.
func (q *Queue[T]) Pop() T { return heap.Pop(&q.items).(T) }

// Remove removes an element of the queue.
func (q *Queue[T]) Remove(x T) { heap.Remove(&q.items, x.place().index-1) }

// Advance moves an element of the queue forward to at, if it is later.
func (q *Queue[T]) Advance(x T, at time.Time) {
	if p := x.place(); at.Before(p.at) {
		p.at = at
		heap.Fix(&q.items, p.index-1)
	}
}

// items implements [heap.Interface].
type items[T Element] []T

func (h items[T]) Len() int           { return len(h) }
func (h items[T]) Less(i, j int) bool { return h[i].place().at.Before(h[j].place().at) }

func (h items[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place().index, h[j].place().index = i+1, j+1
}

func (h *items[T]) Push(x any) {
	*h = append(*h, x.(T))
	x.(T).place().index = len(*h)
}

func (h *items[T]) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	var none T
	(*h)[last] = none
	*h = (*h)[:last]
	x.place().index = 0
	return x
}
