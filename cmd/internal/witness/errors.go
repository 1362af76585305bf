package witness

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// ErrFolder is wrapped by every error about a folder that cannot be used.
	ErrFolder = errors.New("witness folder cannot be used")

	// ErrForgot is wrapped by every [ForgotError].
	ErrForgot = errors.New("what was counted is no longer there")
)

// ForgotError says what was seen in buckets and is no longer there.
type ForgotError struct {
	Folder string // of the witness
	Losses []Loss // counters first, those with the most lost numbers first
}

// Loss is a key that went back, or, with an empty key, a bucket that is gone.
type Loss struct {
	Bucket, Key string
	Missing     bool

	// What was seen, and what was found instead: the number of a counter, 0 of other keys.
	Seen, Found                 int64
	SeenRevision, FoundRevision uint64
}

func newLoss(bucket, key string, seen, found mark) Loss {
	return Loss{
		Bucket: bucket, Key: key, Missing: found.revision == 0,
		Seen: seen.count, Found: found.count, SeenRevision: seen.revision, FoundRevision: found.revision,
	}
}

func (l Loss) String() string {
	what := fmt.Sprintf("key %s of bucket %s", l.Key, l.Bucket)
	switch {
	case l.Key == "":
		return fmt.Sprintf("bucket %s is missing", l.Bucket)
	case l.Missing && l.Seen > 0:
		return fmt.Sprintf("%s is missing, but was seen at %d", what, l.Seen)
	case l.Missing:
		return fmt.Sprintf("%s is missing, but was seen at revision %d", what, l.SeenRevision)
	case l.Seen > 0 && l.Found > 0:
		return fmt.Sprintf("%s is at %d, but was seen at %d", what, l.Found, l.Seen)
	case l.FoundRevision < l.SeenRevision:
		return fmt.Sprintf("%s is at revision %d, but was seen at revision %d", what, l.FoundRevision, l.SeenRevision)
	}
	return fmt.Sprintf("bucket %s was made again since key %s was seen in it", l.Bucket, l.Key)
}

// sortLosses puts buckets that are gone first, then counters by how many numbers they lost.
func sortLosses(all []Loss) {
	slices.SortFunc(all, func(a, b Loss) int {
		return cmp.Or(
			-cmp.Compare(btoi(a.Key == ""), btoi(b.Key == "")),
			-cmp.Compare(a.Seen-a.Found, b.Seen-b.Found),
			cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Key, b.Key),
		)
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// shown is how many losses an error names.
const shown = 5

func (e *ForgotError) Error() string {
	var texts []string
	for _, l := range e.Losses[:min(len(e.Losses), shown)] {
		texts = append(texts, l.String())
	}
	if more := len(e.Losses) - shown; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%v, says the witness in %s: %s", ErrForgot, e.Folder, strings.Join(texts, "; "))
}

// Unwrap makes it an [ErrForgot].
func (e *ForgotError) Unwrap() error { return ErrForgot }
