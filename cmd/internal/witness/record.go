package witness

import "time"

// mark is how far a key was seen.
type mark struct {
	revision uint64
	count    int64 // the number in a counter; 0 if the key is none, or was deleted
}

// record is what was seen of one bucket.
type record struct {
	created time.Time // when its stream was created; zero if that is not known
	marks   map[string]mark
}

func newRecord() *record { return &record{marks: make(map[string]mark)} }

// same reports whether a stream that was created then may be the one that was seen. Where that
// was not noted, as by versions that did not, it may.
func (r *record) same(created time.Time) bool {
	return r.created.IsZero() || r.created.Equal(created)
}

// lost reports whether a key that was seen at one mark went back if it is found at another,
// the zero mark if it is missing, in the same stream or in another one.
func lost(seen, found mark, same bool) bool {
	if seen.count > 0 && found.count > 0 {
		return found.count < seen.count
	}
	return !same || found.revision < seen.revision
}

// compare lists the keys of a bucket that went back.
func (r *record) compare(bucket string, found map[string]mark, created time.Time) (all []Loss) {
	same := r.same(created)
	for key, seen := range r.marks {
		if f := found[key]; lost(seen, f, same) {
			all = append(all, newLoss(bucket, key, seen, f))
		}
	}
	sortLosses(all)
	return all
}

// add notes a key. It returns false, and notes nothing, if the key went back.
func (r *record) add(key string, found mark, created time.Time) bool {
	seen, known := r.marks[key]
	same := r.same(created)
	if known && lost(seen, found, same) {
		return false
	}
	if !same {
		if found.count == 0 {
			return true // a revision of another stream says nothing
		}
		found.revision = max(found.revision, seen.revision)
	}
	r.marks[key] = found
	return true
}

// merge notes what another record has seen, where that is more.
func (r *record) merge(other *record) {
	if r.created.IsZero() {
		r.created = other.created
	}
	for key, m := range other.marks {
		seen := r.marks[key]
		r.marks[key] = mark{revision: max(seen.revision, m.revision), count: max(seen.count, m.count)}
	}
}
