package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

type pair struct {
	Name string `json:"name"`
	ID   int64  `json:"id,string"`
}

func (p pair) String() string { return fmt.Sprintf("%s has %d", p.Name, p.ID) }

func (p pair) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, p)
	return err
}

// The output is text, or else a single JSON object.
func TestPrint(t *testing.T) {
	var text, object strings.Builder
	p := pair{"<a>", 1<<63 - 1}
	if err := errors.Join(output{Writer: &text}.Print(p), output{Writer: &object, JSON: true}.Print(p)); err != nil {
		t.Fatal(err)
	}
	if text.String() != "<a> has 9223372036854775807\n" {
		t.Errorf("text %q", text.String())
	}
	var back pair
	if err := json.Unmarshal([]byte(object.String()), &back); err != nil || back != p || !strings.Contains(object.String(), `"<a>"`) {
		t.Errorf("JSON %s: %v", object.String(), err)
	}
}

// A list is printed as text item by item. As JSON it is complete or empty, but
// never null.
func TestList(t *testing.T) {
	failed := errors.New("the work failed")
	for _, json := range []bool{false, true} {
		var out strings.Builder
		empty := newList[pair](output{Writer: &out, JSON: json}, "pairs")
		if err := empty.End(nil); err != nil || json && out.String() != "{\n  \"pairs\": []\n}\n" || !json && out.Len() > 0 {
			t.Errorf("an empty list: %q, %v", out.String(), err)
		}
		out.Reset()
		list := newList[pair](output{Writer: &out, JSON: json}, "pairs")
		list.Add(pair{"a", 1})
		if json == (out.Len() > 0) {
			t.Errorf("JSON %v: %q before the list has ended", json, out.String())
		}
		list.Add(pair{"b", 2})
		if err := list.End(failed); !errors.Is(err, failed) || !strings.Contains(out.String(), "b") {
			t.Errorf("a list of work that failed: %q, %v", out.String(), err)
		}
	}
}

// A failing output is an error.
func TestBrokenOutput(t *testing.T) {
	for _, json := range []bool{false, true} {
		to := output{Writer: broken{}, JSON: json}
		list := newList[pair](to, "pairs")
		list.Add(pair{"a", 1})
		if err := list.End(nil); !errors.Is(err, io.ErrClosedPipe) || !errors.Is(to.Print(pair{}), io.ErrClosedPipe) {
			t.Errorf("JSON %v: %v", json, err)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
