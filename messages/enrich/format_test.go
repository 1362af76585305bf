package enrich

import (
	"encoding/json"
	"testing"

	"github.com/idworker/idworker/internal/kv"
)

// TestFormatOf020: records of version 0.2.0 are read, and written the same.
func TestFormatOf020(t *testing.T) {
	const value = `{"installation":"n","from":"RAW","filter":"raw.\u003e","to":"ready.\u003e","id":"segment:order","json":"id","json_number":true,"existing":"keep","dead_letter":"dead",` +
		`"chain":"READY.x","done":7,"time":"2026-11-25T09:00:00Z","last":9,"source_created":"2026-11-25T08:00:00Z","target_created":"2026-11-25T08:00:01Z","at_last":7,` +
		`"plans":[{"through":9,"time":"2026-11-25T09:00:01Z","runs":[{"seq":8,"n":2}]}],"doubt":true,"owner":"e","failing":"target away"}`
	r, err := decodeRecord("ids_enrich", kv.Entry{Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := json.Marshal(r); err != nil || string(found) != value {
		t.Errorf("written as %s, %v, want %s", found, err, value)
	}
}
