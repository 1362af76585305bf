package leaf

import "github.com/idworker/idworker/store"

// First checks the arguments of ReserveFirst, and returns the segment that it hands out. Errors:
// store.ErrBadTag, store.ErrExhausted.
func First(tag store.Tag, n int64) (store.Segment, error) {
	if err := CheckTagAndStep(tag.Name, n); err != nil {
		return store.Segment{}, err
	}
	if err := tag.Check(); err != nil {
		return store.Segment{}, err
	}
	return store.Following(tag.Next, n)
}

// OneOfTwo says why a column is not fit for tags with any names.
const OneOfTwo = "the column biz_tag takes tags that differ only in case, such as Order and order, for one"
