package templates_test

import (
	"encoding/json"
	"testing"

	"github.com/idworker/idworker/store/templates"
)

// TestFormatOf010: templates of version 0.1.0 are read, and written the same.
func TestFormatOf010(t *testing.T) {
	const value = `[{"pattern":"chat.*","step":100,"order":"strict","first":5,"max_tags":7,"new_per_second":3}]`
	list, err := templates.Decode([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := json.Marshal(list); err != nil || string(found) != value {
		t.Errorf("written as %s, %v, want %s", found, err, value)
	}
}

// TestFormatOfDates: the fields of dates are written only with dates, because
// version 0.1.0 refuses them.
func TestFormatOfDates(t *testing.T) {
	const value = `[{"pattern":"day.*","step":100,"order":"strict","dated":"yyyyMMdd","ahead":86400}]`
	list, err := templates.Decode([]byte(value))
	if err != nil || list[0].Dates != (templates.Dates{Dated: "yyyyMMdd", Ahead: 86400}) {
		t.Fatalf("read as %+v, %v", list, err)
	}
	if found, err := json.Marshal(list); err != nil || string(found) != value {
		t.Errorf("written as %s, %v, want %s", found, err, value)
	}
}
