package backend

import "encoding/json"

// Counter returns the number in a value of a bucket in which IDs are counted, that is of the
// counters of store/jetstream, or of the ledger: all IDs below it have been handed out. It is
// false for any other value.
func Counter(value []byte) (count int64, ok bool) {
	var v struct {
		MaxID int64 `json:"max_id"`
		High  int64 `json:"high"`
	}
	if json.Unmarshal(value, &v) != nil {
		return 0, false
	}
	count = max(v.MaxID, v.High)
	return count, count >= 1
}
