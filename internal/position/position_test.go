package position

import (
	"encoding/json"
	"testing"
)

// TestPosition: the one check whether a bucket is still the same and not older.
// The register, its witness and the leases build on it.
func TestPosition(t *testing.T) {
	for name, c := range map[string]struct {
		known, found Position
		want         Relation
	}{
		"first sight":                      {Position{}, Position{"a", 7}, NoEvidence},
		"first sight, missing":             {Position{}, Position{}, NoEvidence},
		"equal":                            {Position{"a", 7}, Position{"a", 7}, Same},
		"ahead":                            {Position{"a", 7}, Position{"a", 8}, Same},
		"behind by one":                    {Position{"a", 7}, Position{"a", 6}, WentBack},
		"emptied":                          {Position{"a", 7}, Position{"a", 0}, WentBack},
		"another identity":                 {Position{"a", 7}, Position{"b", 7}, Another},
		"another identity, further":        {Position{"a", 7}, Position{"b", 9}, Another},
		"another identity, behind":         {Position{"a", 7}, Position{"b", 1}, Another},
		"identity gone, further":           {Position{"a", 7}, Position{"", 9}, Another},
		"missing":                          {Position{"a", 7}, Position{}, Another},
		"identity alone is known":          {Position{"a", 0}, Position{"a", 7}, Same},
		"identity alone is known, another": {Position{"a", 0}, Position{"b", 7}, Another},
		"identity alone is known, missing": {Position{"a", 0}, Position{}, Another},
		"sequence alone is known":          {Position{"", 7}, Position{"b", 7}, Same},
		"sequence alone is known, behind":  {Position{"", 7}, Position{"b", 6}, WentBack},
		"sequence alone is known, missing": {Position{"", 7}, Position{}, WentBack},
	} {
		if got := c.known.Judge(c.found); got != c.want {
			t.Errorf("%s: %+v after %+v is %d, want %d", name, c.found, c.known, got, c.want)
		}
	}
	// A witness has it so.
	if text, err := json.Marshal(Position{"a", 9}); err != nil || string(text) != `{"id":"a","seen":9}` {
		t.Errorf("%s, %v", text, err)
	}
}
