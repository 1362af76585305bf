package history

import "github.com/idworker/idworker/messages"

// Set is a set of IDs. It keeps them in pages of 4,096, each as ranges, or as a bit for each ID if that is
// smaller. So 100 million IDs without gaps take 1 MB. If only every other ID is there, as many take 30 MB; if
// every tenth is, 140 MB. An ID that is alone in its page takes about 80 bytes.
type Set struct {
	pages  map[int64]*page // by ID / pageSize
	count  int64
	ranges int64
	high   int64
}

// Add adds a range of IDs from 1 on. If one of them is in the set already, nothing is added, and it returns a range
// of the set that has it.
func (s *Set) Add(r messages.Range) (twice messages.Range, ok bool) {
	if s.pages == nil {
		s.pages = make(map[int64]*page)
	}
	for at, part := range parts(r) {
		if found, overlaps := s.pages[at].overlap(part); overlaps {
			return messages.Range{First: at*pageSize + int64(found.first), Last: at*pageSize + int64(found.last)}, false
		}
	}
	s.ranges++
	for _, beside := range []int64{r.First - 1, r.Last + 1} {
		if s.has(beside) {
			s.ranges--
		}
	}
	for at, part := range parts(r) {
		p := s.pages[at]
		if p == nil {
			p = new(page)
			s.pages[at] = p
		}
		if p.add(part); p.isFull() {
			s.pages[at] = fullPage // to which nothing is added
		}
	}
	s.count += r.Len()
	s.high = max(s.high, r.Last)
	return messages.Range{}, true
}

func (s *Set) has(id int64) bool {
	_, found := s.pages[id/pageSize].overlap(span{uint16(id % pageSize), uint16(id % pageSize)})
	return id > 0 && found // behind 2^63−1 comes what is below 0
}

// Count is how many IDs are in the set.
func (s *Set) Count() int64 { return s.count }

// Ranges is of how many ranges without gaps it consists.
func (s *Set) Ranges() int { return int(s.ranges) }

// Highest is the highest ID, or 0 if there is none.
func (s *Set) Highest() int64 { return s.high }
