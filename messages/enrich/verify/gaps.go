package verify

// gaps are the messages that have been removed from the target, as the sequences that are not
// there tell.
type gaps struct {
	last   uint64 // sequence read last
	since  uint64 // removed since the last event that was in order
	recent []gap
}

type gap struct{ at, n uint64 }

// nearby is how many messages of the target are at most between a dead letter in it and the
// event that follows. It is far more than a batch has.
const nearby = 10_000

// pass notes which messages are missing before a sequence.
func (g *gaps) pass(seq uint64) {
	if n := seq - g.last - 1; n > 0 {
		g.since += n
		g.recent = append(g.recent, gap{seq, n})
	}
	for len(g.recent) > 0 && g.recent[0].at+nearby < seq {
		g.recent = g.recent[1:]
	}
	g.last = seq
}

// lately is how many were removed nearby.
func (g *gaps) lately() (n uint64) {
	for _, one := range g.recent {
		n += one.n
	}
	return n
}
