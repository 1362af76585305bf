package store

import "time"

// MinMoves is the number of unexplained gaps of a tag that another program must
// have caused: a crash, or an UPDATE by hand, leaves one.
const MinMoves = 3

// Moves is the evidence of another program that moves rows of a [Table]. The
// register has only its own grants, so a range that lies above the latest one
// leaves a gap. A gap is explained if a process of the same installation has
// taken those numbers and discarded them, because another was faster.
type Moves struct {
	Since     time.Time `json:"since"` // Discarded is complete since then
	Skipped   []Move    `json:"skipped"`
	Discarded []Move    `json:"discarded"`
}

// Move is a range of a row that the process did not grant.
type Move struct {
	Tag   string    `json:"tag"`
	First int64     `json:"first"`
	End   int64     `json:"end"`
	At    time.Time `json:"at"`
}

// Overlaps reports whether two moves of a tag have numbers in common.
func (m Move) Overlaps(other Move) bool {
	return m.Tag == other.Tag && m.First < other.End && other.First < m.End
}
