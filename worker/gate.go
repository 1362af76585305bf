package worker

import (
	"time"

	"github.com/nats-io/nats.go/micro"
)

// gate is what a request has to pass before an endpoint looks at what it wants. It is the
// endpoint's own, and has one goroutine.
type gate struct {
	replies replyCheck
	line    *waitingLine
	figures *requestFigures
	watch   stopwatch
}

// enter returns when the request began, see stopwatch, and whether it is to be served. If
// not, it has been dealt with.
func (g *gate) enter(req micro.Request) (began time.Duration, ok bool) {
	if !g.replies.ok(req.Reply()) {
		return 0, false
	}
	began = g.watch.start()
	if g.line.late() {
		g.fail(req, errQueued, began)
		return 0, false
	}
	return began, true
}

// fail answers a request with an error.
func (g *gate) fail(req micro.Request, err error, began time.Duration) {
	g.figures.fail(req, err, g.watch.took(began))
}

// gave notes a request that got n IDs.
func (g *gate) gave(n int64, began time.Duration) { g.figures.gave(n, g.watch.took(began)) }
