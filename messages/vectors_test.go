package messages_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/vectors"
)

// vectorsFile is the contract as data. The clients of all languages prove the
// same cases, so a case belongs there rather than into a test in Go.
const vectorsFile = "testdata/vectors.json"

// kinds are the file's names of errors.
var kinds = map[string]error{
	"tag":           messages.ErrTag,
	"prefix":        messages.ErrPrefix,
	"count":         messages.ErrCount,
	"bad_reply":     messages.ErrReply,
	"no_responders": nats.ErrNoResponders,
	"malformed":     messages.ErrMalformed,
	"no_tag":        messages.ErrNoTag,
	"strict":        messages.ErrStrict,
	"busy":          messages.ErrBusy,
	"unavailable":   messages.ErrUnavailable,
	"exhausted":     messages.ErrExhausted,
}

// kindOf returns the file's name of an error, "" for nil. An error has one kind
// only.
func kindOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var found []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if errors.Is(err, kinds[kind]) {
			found = append(found, kind)
		}
	}
	if _, ok := errors.AsType[*messages.Error](err); ok && len(found) == 0 {
		return "code"
	}
	return strings.Join(found, " and ")
}

// wantShort fails the test unless an error's text is fit for a header and a log,
// whatever the input was.
func wantShort(t testing.TB, why string, err error) {
	t.Helper()
	if err != nil && (len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\r\n\x00")) {
		t.Errorf("%s: an error of %d bytes: %.400q", why, len(err.Error()), err)
	}
}

func TestSubjectsOfVectors(t *testing.T) {
	for _, c := range vectors.Read[struct {
		Prefix       messages.Prefix
		Tag          *string
		Subject, Why string
	}](t, vectorsFile, "subjects") {
		got := c.Prefix.Snowflake()
		if c.Tag != nil {
			got = c.Prefix.Segment(*c.Tag)
		}
		if got != c.Subject {
			t.Errorf("%s: %s, want %s", c.Why, got, c.Subject)
		}
	}
}

func TestTagsOfVectors(t *testing.T) {
	for _, c := range vectors.Read[struct {
		Tag        vectors.Bytes
		Error, Why string
	}](t, vectorsFile, "tags") {
		err := messages.CheckTag(string(c.Tag))
		if kindOf(t, err) != c.Error {
			t.Errorf("%s: %v, want %q", c.Why, err, c.Error)
		}
		wantShort(t, c.Why, err)
	}
}

func TestPrefixesOfVectors(t *testing.T) {
	for _, c := range vectors.Read[struct {
		Prefix     vectors.Bytes
		Error, Why string
	}](t, vectorsFile, "prefixes") {
		err := messages.Prefix(c.Prefix).Check()
		if kindOf(t, err) != c.Error {
			t.Errorf("%s: %v, want %q", c.Why, err, c.Error)
		}
		wantShort(t, c.Why, err)
	}
}

func TestTraceparentsOfVectors(t *testing.T) {
	for _, c := range vectors.Read[struct {
		Value vectors.Bytes
		Sent  bool
		Why   string
	}](t, vectorsFile, "traceparents") {
		value := string(c.Value)
		if got := messages.DecodeTraceparent(map[string][]string{messages.TraceparentHeader: {value}}); got != value && c.Sent || got != "" && !c.Sent {
			t.Errorf("%s: %.300q", c.Why, got)
		}
	}
}

func TestCountsOfVectors(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	client := messages.NewClient(new(nats.Conn), messages.DefaultPrefix) // it sends nothing
	for _, c := range vectors.Read[struct {
		N          string
		Body       vectors.Bytes
		Error, Why string
	}](t, vectorsFile, "counts") {
		n, err := strconv.ParseInt(c.N, 10, 64)
		switch {
		case err != nil && c.Error == "": // the type refuses the others
			t.Errorf("%s: %v", c.Why, err)
		case err == nil && c.Error == "":
			if got := messages.EncodeCount(n); string(got) != string(c.Body) {
				t.Errorf("%s: %q, want %q", c.Why, got, c.Body)
			}
		case err == nil:
			if ranges, err := client.NextN(ended, "order", n); ranges != nil || kindOf(t, err) != c.Error {
				t.Errorf("%s: %v, %v; want %q", c.Why, ranges, err, c.Error)
			}
		}
	}
}

func TestRequestsOfVectors(t *testing.T) {
	for _, c := range vectors.Read[struct {
		Body       vectors.Bytes
		N          int64 `json:",string"`
		Error, Why string
	}](t, vectorsFile, "requests") {
		n, err := messages.DecodeCount(c.Body, 10_000)
		// A worker replies to a malformed count with the code 400.
		if n != c.N || errors.Is(err, messages.ErrCount) != (c.Error == "malformed") || (err == nil) != (c.Error == "") {
			t.Errorf("%s: %d, %v; want %d, %q", c.Why, n, err, c.N, c.Error)
		}
		wantShort(t, c.Why, err)
	}
}

// bodyCase is a case of the section bodies.
type bodyCase struct {
	Body       vectors.Bytes
	N          int64 `json:",string"`
	Ranges     []string
	Error, Why string
}

func TestBodiesOfVectors(t *testing.T) {
	for _, c := range vectors.Read[bodyCase](t, vectorsFile, "bodies") {
		ranges, err := messages.DecodeReply(&nats.Msg{Data: c.Body}, c.N)
		if got := texts(ranges); !slices.Equal(got, c.Ranges) || kindOf(t, err) != c.Error {
			t.Errorf("%s: %v, %v; want %v, %q", c.Why, got, err, c.Ranges, c.Error)
		}
		wantShort(t, c.Why, err)
	}
}

// replyCase is a case of the section replies.
type replyCase struct {
	bodyCase
	Status  string
	Headers map[string][]vectors.Bytes
	Code    messages.Code
	Text    string
}

// message returns the reply as nats.go delivers it: the status line is a header
// of its own.
func (c replyCase) message() *nats.Msg {
	msg := nats.NewMsg("")
	msg.Data = c.Body
	for name, values := range c.Headers {
		for _, value := range values {
			msg.Header.Add(name, string(value))
		}
	}
	if c.Status != "" {
		msg.Header.Set("Status", c.Status)
	}
	return msg
}

func TestRepliesOfVectors(t *testing.T) {
	for _, c := range vectors.Read[replyCase](t, vectorsFile, "replies") {
		ranges, err := messages.DecodeReply(c.message(), c.N)
		if got := texts(ranges); !slices.Equal(got, c.Ranges) || kindOf(t, err) != c.Error {
			t.Errorf("%s: %v, %v; want %v, %q", c.Why, got, err, c.Ranges, c.Error)
		}
		reply, ok := errors.AsType[*messages.Error](err)
		if ok != (c.Code != 0) || ok && *reply != (messages.Error{Code: c.Code, Text: c.Text}) {
			t.Errorf("%s: %v, want the code %d and %q", c.Why, err, c.Code, c.Text)
		}
		wantShort(t, c.Why, err)
	}
}

func TestCodesOfVectors(t *testing.T) {
	for _, c := range vectors.Read[struct {
		Value, Error string
		Retryable    bool
		Why          string
	}](t, vectorsFile, "codes") {
		_, err := messages.DecodeReply(&nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {c.Value}}}, 1)
		if kindOf(t, err) != c.Error {
			t.Errorf("%s: %v, want %q", c.Why, err, c.Error)
		}
		var retryable bool
		for p := range problem.In(err) {
			kind, _ := p.Problem()
			retryable = kind == problem.TryLater
		}
		if retryable != c.Retryable {
			t.Errorf("%s: %v is retryable: %t", c.Why, err, retryable)
		}
	}
}

// texts returns the ranges as text, as in the file.
func texts(ranges []messages.Range) (texts []string) {
	for _, r := range ranges {
		texts = append(texts, r.String())
	}
	return texts
}
