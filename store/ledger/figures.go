package ledger

import "sync/atomic"

// Figures count what became of the ranges that the store returned.
type Figures struct {
	Granted    int64 // with or without an entry in the ledger
	Unrecorded int64 // of these, without
	Burnt      int64 // below what was granted, or with an unknown outcome
	WentBack   int64 // times that the store proved to have gone back
	Raised     int64 // times that it was raised because of that
}

type figures struct{ granted, unrecorded, burnt, wentBack, raised atomic.Int64 }

// Figures returns the figures since the start.
func (s *Store) Figures() Figures {
	f := &s.figures
	return Figures{f.granted.Load(), f.unrecorded.Load(), f.burnt.Load(), f.wentBack.Load(), f.raised.Load()}
}
