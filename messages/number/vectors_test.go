package number_test

import (
	"errors"
	"testing"
	"time"
	_ "time/tzdata" // the machine's may lack zones

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/number"
	"github.com/idworker/idworker/testing/vectors"
)

// vector is a case of the section numbers of messages/testdata/vectors.json. It
// has a number, or an error: of the format, of a date and ID, or of a text that
// is read.
type vector struct {
	Why                string
	Base, Format, Zone string
	At                 *string
	Seq                int64 `json:",string"`
	Tag, Number        string
	Parse              *string
	Error              string
}

// failures are the errors by their words in the vectors.
var failures = map[string]error{
	"tag": messages.ErrTag, "format": number.ErrFormat, "date": number.ErrDate, "seq": number.ErrSeq, "number": number.ErrNumber,
}

// made makes the vector's format, then its number, or reads one.
func (v vector) made() (tag, text string, err error) {
	zone, err := time.LoadLocation(v.Zone)
	if err != nil {
		return "", "", err
	}
	f, err := number.NewFormat(v.Base, v.Format, zone)
	if err != nil {
		return "", "", err
	}
	if v.Parse != nil {
		_, err := f.Parse(*v.Parse)
		return "", "", err
	}
	if v.At == nil {
		return "", "", nil
	}
	at, err := f.ParseDate(*v.At)
	if err != nil {
		return "", "", err
	}
	if text, err = f.Number(at, v.Seq); err != nil {
		return "", "", err
	}
	if tag, err = f.Tag(at); err != nil {
		return "", "", err
	}
	got, err := f.Parse(text)
	if err == nil && (got.Tag() != tag || got.Seq != v.Seq || got.Base != v.Base) {
		return tag, text, errors.New("it is read as something else")
	}
	return tag, text, err
}

// TestVectors: tags, numbers and errors are as in the vectors that all languages
// share, and each number is read back.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors.Read[vector](t, "../testdata/vectors.json", "numbers") {
		tag, text, err := v.made()
		if tag != v.Tag || text != v.Number || !errors.Is(err, failures[v.Error]) || v.Error != "" && failures[v.Error] == nil {
			t.Errorf("%s: %s of %s in %s: %q, %q, %v; want %q, %q, error %q", v.Why, v.Format, v.Base, v.Zone, tag, text, err, v.Tag, v.Number, v.Error)
		}
	}
}
