package snowflake

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func anyID(t *rapid.T, label string) ID {
	return rapid.Map(rapid.Int64Range(1, math.MaxInt64), func(n int64) ID { return ID(n) }).Draw(t, label)
}

func TestIDsComeBackFromText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, other := anyID(t, "id"), anyID(t, "other")
		if got, err := Parse(id.String()); err != nil || got != id {
			t.Fatalf("decimal: %d, %v", got, err)
		}
		if got, err := ParseBase62(id.Base62()); err != nil || got != id {
			t.Fatalf("base62: %d, %v", got, err)
		}
		if (id < other) != (id.Base62() < other.Base62()) {
			t.Fatalf("base62 does not sort: %d %s, %d %s", id, id.Base62(), other, other.Base62())
		}
		data, err := json.Marshal(map[ID]ID{id: other})
		if err != nil {
			t.Fatal(err)
		}
		var back map[ID]ID
		if err := json.Unmarshal(data, &back); err != nil || back[id] != other {
			t.Fatalf("JSON %s: %v, %v", data, back, err)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "1e3", "0x1", "1_000", "٣",
		"9223372036854775808", "18446744073709551617", strings.Repeat("9", 1000)} {
		if id, err := Parse(text); !errors.Is(err, ErrID) {
			t.Errorf("%q: %d, %v", text, id, err)
		}
	}
	for _, text := range []string{"", "1", "00000000000", "000000000001", "0000000000-", "AzL8n0Y58m8", "zzzzzzzzzzz"} {
		if id, err := ParseBase62(text); !errors.Is(err, ErrID) {
			t.Errorf("base62 %q: %d, %v", text, id, err)
		}
	}
	if id, err := ParseBase62("AzL8n0Y58m7"); err != nil || id != math.MaxInt64 {
		t.Errorf("the last one: %d, %v", id, err)
	}
}

func TestJSONNumbersOnlyWhileExact(t *testing.T) {
	for text, want := range map[string]ID{
		`"9223372036854775807"`: math.MaxInt64, `1`: 1, `9007199254740991`: maxSafeNumber, `null`: 77,
	} {
		id := ID(77)
		if err := json.Unmarshal([]byte(text), &id); err != nil || id != want {
			t.Errorf("%s: %d, %v", text, id, err)
		}
	}
	for _, text := range []string{`9007199254740992`, `1541815603606036480`, `1.5`, `1e3`, `-1`, `0`, `""`, `"1`, `true`, `{}`, `"0x1"`, `" 1"`} {
		id := ID(77)
		if err := json.Unmarshal([]byte(text), &id); err == nil || id != 77 {
			t.Errorf("%s: %d, %v", text, id, err)
		}
		if err := id.UnmarshalJSON([]byte(text)); !errors.Is(err, ErrID) || id != 77 {
			t.Errorf("%s, directly: %d, %v", text, id, err)
		}
	}
}
