package snowflake

import (
	"errors"
	"slices"
	"testing"
)

// The parsers accept any input: they return an error of the right kind, or a
// value that is written exactly as it was read. The corpus is in testdata/fuzz.

func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrID) {
				t.Fatal(err)
			}
			return
		}
		if id < 1 || id.String() != text {
			t.Fatalf("%q was read as %d", text, id)
		}
	})
}

func FuzzParseBase62(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseBase62(text)
		if err != nil {
			if !errors.Is(err, ErrID) {
				t.Fatal(err)
			}
			return
		}
		if id < 1 || id.Base62() != text {
			t.Fatalf("%q was read as %d, %s", text, id, id.Base62())
		}
	})
}

func FuzzUnmarshalJSON(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		var id ID
		if err := id.UnmarshalJSON(data); err != nil {
			if !errors.Is(err, ErrID) || id != 0 {
				t.Fatal(id, err)
			}
			return
		}
		back, _ := id.MarshalJSON()
		switch {
		case id == 0 && string(data) == "null":
		case string(back) == string(data):
		case id <= maxSafeNumber && id.String() == string(data):
		default:
			t.Fatalf("%q was read as %d", data, id)
		}
	})
}

func FuzzParseLayout(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLayout(text)
		if err != nil {
			if !errors.Is(err, ErrLayout) || !l.IsZero() {
				t.Fatal(l, err)
			}
			return
		}
		if text != l.String() && !slices.Contains(LayoutNames(), text) {
			t.Fatalf("%q was read as %v", text, l)
		}
		l.End()
	})
}
