package verify

// gaps are the messages that have been removed from the target and that explain no event yet,
// as the sequences that are not there tell.
type gaps struct {
	reach   uint64 // how many messages behind a gap it may explain an event that follows one in order
	last    uint64 // sequence read last
	inOrder uint64 // sequence of the last event in order
	older   uint64 // removed since then, and farther back than reach
	recent  []gap
}

type gap struct{ at, n uint64 }

// nearby is how many messages of the target are at most between a dead letter in it and the
// event that follows. It is far more than a batch has.
const nearby = 10_000

// pass notes which messages are missing before a sequence.
func (g *gaps) pass(seq uint64) {
	if n := seq - g.last - 1; n > 0 {
		g.recent = append(g.recent, gap{seq, n})
	}
	for len(g.recent) > 0 && g.recent[0].at+g.reach < seq {
		if g.recent[0].at > g.inOrder {
			g.older += g.recent[0].n
		}
		g.recent = g.recent[1:]
	}
	g.last = seq
}

// passEvent notes that the message read last is an event in order.
func (g *gaps) passEvent() {
	g.inOrder, g.older = g.last, 0
}

// left is how many messages may have been events before the next one, or their dead letters.
func (g *gaps) left() uint64 {
	n := g.older
	for _, one := range g.recent {
		n += one.n
	}
	return n
}

// use takes out messages that explain an event. The oldest first, as they are out of reach first.
func (g *gaps) use(n uint64) {
	older := min(n, g.older)
	g.older -= older
	n -= older
	for n > 0 {
		some := min(n, g.recent[0].n)
		g.recent[0].n -= some
		n -= some
		if g.recent[0].n == 0 {
			g.recent = g.recent[1:]
		}
	}
}

// giveBack puts back a message that was used for an event which came later.
func (g *gaps) giveBack() {
	g.recent = append(g.recent, gap{g.inOrder, 1})
}
