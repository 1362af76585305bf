package snowflake

// Range is a range of consecutive IDs, both ends included.
type Range struct {
	First ID
	Last  ID
}

// Len is the number of IDs in the range.
func (r Range) Len() int64 { return int64(r.Last-r.First) + 1 }
