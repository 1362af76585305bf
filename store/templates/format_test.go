package templates_test

import (
	"encoding/json"
	"testing"

	"github.com/idworker/idworker/store/templates"
)

// TestFormatOf020: templates of version 0.2.0 are read, and written the same.
func TestFormatOf020(t *testing.T) {
	const value = `[{"pattern":"chat.*","step":100,"order":"strict","first":5,"max_tags":7,"new_per_second":3},` +
		`{"pattern":"day.*","step":100,"order":"strict","dated":"yyyyMMdd","ahead":86400}]`
	list, err := templates.Decode([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := json.Marshal(list); err != nil || string(found) != value {
		t.Errorf("written as %s, %v, want %s", found, err, value)
	}
}
