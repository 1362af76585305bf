package messages

import "sync/atomic"

// stock is the buffered IDs of a prefetcher, without the current chunk.
type stock struct {
	chunks []*chunk
	ids    int64 // in all chunks
}

// chunk is a range of buffered IDs. It fills a cache line of its own.
type chunk struct {
	first int64
	n     int64
	used  atomic.Int64 // n or more: the chunk is used up
	_     [40]byte
}

// add appends the ranges of a reply.
func (s *stock) add(ranges []Range) {
	for _, r := range ranges {
		s.chunks = append(s.chunks, &chunk{first: r.First, n: r.Len()})
		s.ids += r.Len()
	}
}

// takeChunk removes and returns the first chunk, or nil if there is none.
func (s *stock) takeChunk() *chunk {
	if len(s.chunks) == 0 {
		return nil
	}
	c := s.chunks[0]
	s.chunks[0] = nil
	s.chunks = s.chunks[1:]
	s.ids -= c.n
	return c
}

// takeID returns the next ID of the chunk. IDs are counted by their offset,
// which cannot overflow at 2^63−1 as the IDs could.
func (c *chunk) takeID() (id int64, ok bool) {
	i := c.used.Add(1) - 1
	return c.first + i, i < c.n
}
