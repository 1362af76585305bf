package worker

import (
	"context"
	"fmt"
	"os"

	"github.com/idworker/idworker/internal/neighbours"
)

// neighbourhood is the part of a process that makes sure that no other installation answers
// on the same subjects. It starts before the halves that answer and load, which it takes out
// of their queue groups, and back in.
type neighbourhood struct {
	processInfo
	watch      *neighbours.Watch
	members    []groupMember
	background *goroutines
}

// groupMember is a half that is in queue groups.
type groupMember interface {
	half

	// giveWay takes the half out of all its queue groups, or back in.
	giveWay(ctx context.Context, away bool)
}

func newNeighbourhood(p processInfo, members []groupMember) *neighbourhood {
	n := &neighbourhood{processInfo: p, members: members, background: newGoroutines()}
	host, _ := os.Hostname() // only informs people
	n.watch = neighbours.New(neighbours.Config{
		Conn:   p.cfg.Control,
		Prefix: p.cfg.Prefix,
		Self:   neighbours.Process{Installation: p.installation, Instance: p.instance, Host: host},
		Leave:  func(*neighbours.ForeignError) { n.giveWay(true) },
		Return: func() { n.giveWay(false) },
		Log:    p.cfg.Log,
		Wait:   p.cfg.admitWait,
	})
	return n
}

// start fails if the process must not serve beside another installation.
func (n *neighbourhood) start(ctx context.Context) error {
	if err := withTimeout(ctx, n.watch.Admit); err != nil {
		return err
	}
	n.background.start(n.watch.Run)
	return nil
}

func (n *neighbourhood) stop() error {
	n.background.stop()
	return unlessClosed(n.watch.Close())
}

func (n *neighbourhood) giveWay(away bool) {
	for _, m := range n.members {
		m.giveWay(n.background.ctx, away)
	}
}

func (n *neighbourhood) ready() error {
	if left := n.watch.Left(); left != nil {
		return fmt.Errorf("not in the queue groups: %w", left)
	}
	return nil
}

func (n *neighbourhood) collect(to sink) {
	to.yes(conflictMetric, n.watch.Left() != nil)
	to.counter(neighboursMetric, n.watch.Heard())
	n.foreign.collect(to)
}

func (n *neighbourhood) fillStats(s *Stats) {
	s.Installation = n.installation.ID
	if left := n.watch.Left(); left != nil {
		s.LeftFor = left.Error()
	}
}
