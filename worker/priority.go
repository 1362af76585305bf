package worker

import (
	"container/heap"
	"time"
)

// standing is where something stands in a [priority] queue.
type standing struct {
	at    time.Time // the earliest comes first
	index int       // in the queue; -1 if in none
}

func (p *standing) stand() *standing { return p }

// ranked is what can stand in a priority queue: a struct with a standing.
type ranked interface{ stand() *standing }

// priority is a queue from which the earliest is taken first.
type priority[T ranked] struct{ items items[T] }

func (p *priority[T]) len() int { return len(p.items) }

// first returns the earliest. There must be one.
func (p *priority[T]) first() T { return p.items[0] }

func (p *priority[T]) push(x T, at time.Time) {
	x.stand().at = at
	heap.Push(&p.items, x)
}

func (p *priority[T]) pop() T { return heap.Pop(&p.items).(T) }

// advance moves x, which is in the queue, forward, if it comes later than at.
func (p *priority[T]) advance(x T, at time.Time) {
	if where := x.stand(); at.Before(where.at) {
		where.at = at
		heap.Fix(&p.items, where.index)
	}
}

// items is what package heap works on.
type items[T ranked] []T

func (h items[T]) Len() int           { return len(h) }
func (h items[T]) Less(i, j int) bool { return h[i].stand().at.Before(h[j].stand().at) }

func (h items[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].stand().index, h[j].stand().index = i, j
}

func (h *items[T]) Push(x any) {
	x.(T).stand().index = len(*h)
	*h = append(*h, x.(T))
}

func (h *items[T]) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	var none T
	(*h)[last] = none
	*h = (*h)[:last]
	x.stand().index = -1
	return x
}
