package conformance

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/vectors"
)

// vectorsFile is the contract as data.
const vectorsFile = "../../messages/testdata/vectors.json"

var decodingCases = []testCase{
	{name: "01 bodies of vectors.json", run: func(t *testing.T, d *driver) {
		type body struct {
			Body       vectors.Bytes
			N          string
			Ranges     []string
			Error, Why string
		}
		wantVectors(t, d, vectors.Read[body](t, vectorsFile, "bodies"), func(c body) (op, expected) {
			return op{"op": "decode", "body": []byte(c.Body), "n": c.N}, expected{why: c.Why, n: c.N, ranges: c.Ranges, kind: c.Error}
		})
	}},
	{name: "01 replies of vectors.json", run: func(t *testing.T, d *driver) {
		type reply struct {
			Status     string
			Headers    map[string][]vectors.Bytes
			Body       vectors.Bytes
			N          string
			Ranges     []string
			Error, Why string
			Code       int
			Text       string
		}
		wantVectors(t, d, vectors.Read[reply](t, vectorsFile, "replies"), func(c reply) (op, expected) {
			headers := make(map[string][]string)
			for name, values := range c.Headers {
				for _, value := range values {
					headers[name] = append(headers[name], string(value))
				}
			}
			return op{"op": "decode_reply", "status": c.Status, "headers": headers, "body": []byte(c.Body), "n": c.N},
				expected{why: c.Why, n: c.N, ranges: c.Ranges, kind: c.Error, code: c.Code, text: c.Text}
		})
	}},
	{name: "01 codes of vectors.json", run: func(t *testing.T, d *driver) {
		type code struct {
			Value, Error string
			Retryable    bool
			Why          string
		}
		wantVectors(t, d, vectors.Read[code](t, vectorsFile, "codes"), func(c code) (op, expected) {
			number, err := strconv.Atoi(c.Value)
			if err != nil {
				t.Fatal(err)
			}
			return op{"op": "decode_reply", "headers": map[string][]string{"Nats-Service-Error-Code": {c.Value}}, "body": []byte{}, "n": "1"},
				expected{why: c.Why, kind: c.Error, code: number, retryable: &c.Retryable}
		})
	}},
}

// expected is what a driver has to return for a case of vectors.json.
type expected struct {
	why, kind, n string // without a kind there is a result
	ranges       []string
	body         []byte
	code         int
	text         string // part of the error's
	retryable    *bool
}

// wantVectors performs an operation for each case, all at once, and compares.
func wantVectors[C any](t *testing.T, d *driver, cases []C, of func(C) (op, expected)) {
	t.Helper()
	doubles := d.has(t, "doubles")
	pending := make([]*pending, len(cases))
	for i, c := range cases {
		o, _ := of(c)
		pending[i] = d.begin(t, o)
	}
	for i, c := range cases {
		_, want := of(c)
		r := pending[i].wait(t)
		if doubles && r.kind() == "count" && isLarge(want.n) {
			continue
		}
		want.compare(t, r)
	}
}

// isLarge reports whether a count is above 2^53−1.
func isLarge(n string) bool {
	count, err := strconv.ParseInt(n, 10, 64)
	return err == nil && count >= 1<<53
}

func (want expected) compare(t *testing.T, r result) {
	t.Helper()
	switch {
	case r.kind() != want.kind:
		t.Errorf("%s: %v; want the kind %q", want.why, r, want.kind)
	case r.err == nil:
		if !slices.Equal(r.Ranges, want.ranges) || string(r.Body) != string(want.body) {
			t.Errorf("%s: %v, body %q; want %q, body %q", want.why, r, r.Body, want.ranges, want.body)
		}
	case r.err.Code != want.code, !strings.Contains(r.err.Text, want.text), want.retryable != nil && *want.retryable != r.err.Retryable:
		t.Errorf("%s: %v; want the code %d and %q", want.why, r, want.code, want.text)
	// The text is fit for a log, whatever the input was.
	case r.err.Text == "", len(r.err.Text) > 300, strings.ContainsAny(r.err.Text, "\r\n\x00"):
		t.Errorf("%s: an error of %d bytes: %.400q", want.why, len(r.err.Text), r.err.Text)
	}
}
