package register

import (
	"slices"
	"testing"

	"github.com/idworker/idworker/store"
)

func mark(end int64, revision uint64) store.Mark {
	return store.Mark{Tag: "order", End: end, Revision: revision}
}

func answer(end int64, revision uint64) store.Mark {
	m := mark(end, revision)
	m.Own, m.Answer = true, true
	return m
}

func own(end int64, revision uint64) store.Mark {
	m := mark(end, revision)
	m.Own = true
	return m
}

// Whatever the order in which a write's answer and the watch come, the marks of this process
// are told from those of others.
func TestEchoes(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(e *Echoes)
		want []store.Mark
	}{
		{"nothing is written here", func(e *Echoes) {
			e.receive(mark(10, 1))
		}, []store.Mark{mark(10, 1)}},
		{"the answer comes first", func(e *Echoes) {
			e.begin("order")
			e.end("order", answer(10, 1))
			e.receive(mark(10, 1))
		}, []store.Mark{answer(10, 1), own(10, 1)}},
		{"the watch comes first, with another's mark before and behind", func(e *Echoes) {
			e.begin("order")
			e.receive(mark(10, 1))
			e.receive(mark(20, 2))
			e.receive(mark(30, 3))
			e.end("order", answer(20, 2))
		}, []store.Mark{answer(20, 2), mark(10, 1), own(20, 2), mark(30, 3)}},
		{"the watch comes with the next write", func(e *Echoes) {
			e.begin("order")
			e.end("order", answer(10, 1))
			e.begin("order")
			e.receive(mark(10, 1))
			e.end("order", answer(20, 2))
		}, []store.Mark{answer(10, 1), answer(20, 2), own(10, 1)}},
		{"the answer is lost", func(e *Echoes) {
			e.begin("order")
			e.receive(mark(10, 1))
			e.end("order", store.Mark{})
		}, []store.Mark{mark(10, 1)}},
		{"another's write of the same revision, after the stream was put back", func(e *Echoes) {
			e.begin("order")
			e.end("order", answer(20, 2))
			e.receive(mark(15, 2))
		}, []store.Mark{answer(20, 2), mark(15, 2)}},
		{"two writes at once", func(e *Echoes) {
			e.begin("order")
			e.begin("order")
			e.end("order", answer(10, 1))
			e.receive(mark(10, 1))
			e.receive(mark(20, 2))
			e.end("order", answer(20, 2))
		}, []store.Mark{answer(10, 1), answer(20, 2), own(10, 1), own(20, 2)}},
		{"two writes at once, and the second one's mark comes first", func(e *Echoes) {
			e.begin("order")
			e.begin("order")
			e.receive(mark(20, 2))
			e.end("order", answer(10, 1))
			e.end("order", answer(20, 2))
		}, []store.Mark{answer(10, 1), answer(20, 2), own(20, 2)}},
	} {
		var e Echoes
		var told []store.Mark
		stop := e.listen(func(m store.Mark) { told = append(told, m) })
		c.do(&e)
		stop()
		e.receive(mark(99, 99))
		if !slices.Equal(told, c.want) {
			t.Errorf("%s: told\n%+v, want\n%+v", c.name, told, c.want)
		}
	}
}
