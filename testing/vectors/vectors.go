// Package vectors reads messages/testdata/vectors.json, the contract as data,
// which the tests of all languages read.
package vectors

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// Read returns the cases of a section of the file. It fails the test if the
// section or a reason is missing, or if C lacks a field that a case has: a
// field that no test reads would prove nothing.
func Read[C any](t testing.TB, file, section string) []C {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string]json.RawMessage
	if err := json.Unmarshal(data, &sections); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var read struct {
		About string
		Cases []C
	}
	decoder := json.NewDecoder(bytes.NewReader(sections[section]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		t.Fatalf("%s, section %s: %v", file, section, err)
	}
	var reasons struct{ Cases []struct{ Why string } }
	if err := json.Unmarshal(sections[section], &reasons); err != nil {
		t.Fatalf("%s, section %s: %v", file, section, err)
	}
	for i, c := range reasons.Cases {
		if c.Why == "" {
			t.Errorf("%s, section %s: case %d has no reason", file, section, i)
		}
	}
	if read.About == "" || len(read.Cases) == 0 {
		t.Fatalf("%s, section %s: %d cases about %q", file, section, len(read.Cases), read.About)
	}
	return read.Cases
}

// Bytes is a text of the file: a string, {"base64": …} for bytes that are not
// UTF-8, or {"repeat": …, "times": …} for a long text.
type Bytes []byte

// UnmarshalJSON implements [json.Unmarshaler].
func (b *Bytes) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*b = Bytes(text)
		return nil
	}
	var long struct {
		Base64 []byte
		Repeat string
		Times  int
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&long); err != nil {
		return err
	}
	*b = append(long.Base64, bytes.Repeat([]byte(long.Repeat), long.Times)...)
	return nil
}
