package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// only is a worker that nobody else asks: its IDs have no gaps, unless a request
// that failed took some.
type only struct {
	t      *testing.T
	url    string
	conn   *nats.Conn
	client requester
	last   int64
}

func startOnly(t *testing.T, args ...string) *only {
	t.Helper()
	s := startServer(t, t.TempDir(), args...)
	createTag(t, s.url, "order")
	o := &only{t: t, url: s.url, conn: connect(t, s.url)}
	o.client = requester{o.conn}
	var err error
	if o.last, err = o.client.Next(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	return o
}

// untouched fails the test unless the next ID is the one that follows.
func (o *only) untouched(t *testing.T) {
	t.Helper()
	id, err := o.client.Next(t.Context(), "order")
	if err != nil || id != o.last+1 {
		t.Errorf("the next ID is %d, %v; want %d", id, err, o.last+1)
	}
	o.last = id
}

func TestBadInputCounts(t *testing.T) {
	t.Parallel()
	o := startOnly(t)
	for name, payload := range map[string]string{
		"zero":             "0",
		"negative":         "-1",
		"sign":             "+1",
		"exponent":         "1e3",
		"space before":     " 7",
		"space after":      "7 ",
		"newline after":    "7\n",
		"leading zeros":    "007",
		"hexadecimal":      "0x10",
		"underscore":       "1_000",
		"fraction":         "1.0",
		"over the limit":   "10001",
		"2^63-1":           "9223372036854775807",
		"2^63":             "9223372036854775808",
		"2^64+1":           "18446744073709551617",
		"30 digits":        strings.Repeat("1", 30),
		"other digits":     "٣",
		"NUL":              "\x00",
		"binary":           "\xff\xfe\x00\x01",
		"header injection": "1\r\nX-Evil: 1",
		"JSON":             `{"n":1}`,
		"1 MB of digits":   strings.Repeat("1", 1<<20),
		"1 MB of binary":   strings.Repeat("\xff", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			msg, err := o.conn.Request("ids.segment.order", []byte(payload), 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if code := msg.Header.Get("Nats-Service-Error-Code"); code != "400" {
				t.Errorf("code %q, want 400; data %.60q", code, msg.Data)
			}
			text := msg.Header.Get("Nats-Service-Error")
			if !strings.Contains(text, "decimal from 1 to 10000") || len(text) > 300 {
				t.Errorf("text %q does not say what is allowed", text)
			}
			if len(msg.Data) > 0 {
				t.Errorf("an error with data %.60q", msg.Data)
			}
			o.untouched(t)
		})
	}
	t.Run("largest allowed", func(t *testing.T) {
		ranges, err := o.client.NextN(t.Context(), "order", 10_000)
		if err != nil || ranges[0].First != o.last+1 {
			t.Errorf("10000 IDs: %v, %v; want them from %d on", ranges, err, o.last+1)
		}
	})
}

// TestBadInputTags sends what client libraries refuse to send: raw bytes of the protocol,
// as anybody can who can open a socket.
func TestBadInputTags(t *testing.T) {
	t.Parallel()
	o := startOnly(t)
	const refused = "refused by the server"
	for name, test := range map[string]struct{ tag, want string }{
		"star":                 {"*", "400"},
		"greater":              {">", "400"},
		"star behind a dot":    {"order.*", "400"},
		"greater behind a dot": {"order.>", "400"},
		"star inside":          {"or*er", "400"},
		"129 bytes":            {strings.Repeat("a", 129), "400"},
		"3000 bytes":           {strings.Repeat("a", 3000), "400"},
		"unicode":              {"bestellung-größe", "400"},
		"emoji":                {"🆔", "400"},
		"not UTF-8":            {"a\xff\xfe", "400"},
		"control character":    {"a\x01b", "400"},
		"NUL":                  {"a\x00b", "400"},
		"slash":                {"a/b", "400"},
		"quote":                {`a"b`, "400"},
		"dot at the end":       {"order.", refused},
		"dot at the beginning": {".order", refused},
		"double dot":           {"shop..order", refused},
		"nothing":              {"", refused},
		"newline":              {"or\nder", refused},
		"space":                {"or der", refused},
		"tab":                  {"or\tder", refused},
		"64 KB":                {strings.Repeat("a", 1<<16), refused},
		"128 bytes":            {strings.Repeat("a", 128), "404"},
		"another":              {"ordel", "404"},
		"other case":           {"Order", "404"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := rawRequest(t, o.url, "ids.segment."+test.tag)
			switch {
			case test.want == refused && (status == "503" || status == ""):
				// Nobody is subscribed to such a subject, or the server hung up.
			case status != test.want:
				t.Errorf("status %q (%s), want %s", status, text, test.want)
			case status == "400" && !strings.Contains(text, "allowed"):
				t.Errorf("text %q does not say what is allowed", text)
			}
			o.untouched(t)
		})
	}
}

// TestBadInputCarriageReturn: the server passes on a subject with a carriage return,
// and no client library can read that message, so that the worker's connection
// breaks off before the worker sees anything. All the worker can do is reconnect.
func TestBadInputCarriageReturn(t *testing.T) {
	t.Parallel()
	o := startOnly(t)
	conn := dialRaw(t, o.url, "PUB ids.segment.or\rder box 0\r\n\r\nPING\r\n")
	defer func() { _ = conn.Close() }()
	_, _ = bufio.NewReader(conn).ReadString('G') // PONG: the server has it
	natstest.Eventually(t, "the worker answers again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // what was under way is lost
		defer cancel()
		id, err := o.client.Next(ctx, "order")
		if err == nil && id <= o.last {
			t.Errorf("the next ID is %d, after %d", id, o.last)
		}
		return err == nil
	})
}

// dialRaw opens a connection and sends what follows the client's introduction.
func dialRaw(t testing.TB, url, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n%s", text)
	return conn
}

// rawRequest sends a request in the bytes of the protocol, and returns the code of
// the error reply, 503 if nobody is subscribed, or "" if the server complained or
// hung up instead. IDs fail the test.
func rawRequest(t *testing.T, url, subject string) (code, text string) {
	t.Helper()
	conn := dialRaw(t, url, "SUB box 1\r\nPUB "+subject+" box 0\r\n\r\n")
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		switch {
		case err != nil || strings.HasPrefix(line, "-ERR"):
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("neither an answer nor a refusal")
			}
			return "", line
		case strings.HasPrefix(line, "MSG "):
			t.Errorf("subject %q was answered with data: %s", subject, line)
			return "", line
		case strings.HasPrefix(line, "HMSG "):
			fields := strings.Fields(line)
			size, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				t.Fatal(line)
			}
			header := make([]byte, size)
			for n := 0; n < size; {
				k, err := in.Read(header[n:])
				if err != nil {
					t.Fatal(err)
				}
				n += k
			}
			if bytes.HasPrefix(header, []byte("NATS/1.0 503")) {
				return "503", ""
			}
			h, err := nats.DecodeHeadersMsg(header)
			if err != nil {
				t.Fatalf("header %q: %v", header, err)
			}
			return h.Get("Nats-Service-Error-Code"), h.Get("Nats-Service-Error")
		}
	}
}

// TestBadInputElsewhere sends nonsense to the subjects that are not for callers, and
// requests whose replies would go to other subjects of idworker.
func TestBadInputElsewhere(t *testing.T) {
	t.Parallel()
	o := startOnly(t)
	var instance string
	for instance = range stats(t, o.conn, 1) {
		break
	}
	nonsense := []string{"", "1001", "null", "[]", "{}", "\xff\x00", strings.Repeat("[", 100_000),
		`{"instance":"` + instance + `","tag":"order","seq":1,"first":-5,"end":5}`,
		`{"instance":"` + instance + `","tag":"order","seq":1,"first":5,"end":5}`,
		`{"instance":"` + instance + `","tag":"order","seq":1,"step":0}`,
		`{"instance":"` + instance + `","tag":"order","seq":1,"step":9223372036854775807,"want":1}`,
		`{"instance":"` + instance + `","tag":"order","seq":1,"step":1,"want":-1}`,
		`{"instance":"*","tag":"order","seq":1,"step":10}`,
		`{"instance":"a.b","tag":">","seq":1,"step":10}`,
	}
	for _, subject := range []string{"ids.reserve", "ids.load.x.order", "ids.load." + instance + ".order", "ids.grant." + instance} {
		for _, data := range nonsense {
			if err := o.conn.Publish(subject, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A reply to these could be a command, so there is none, and no ID is used up.
	for _, reply := range []string{"ids.segment.order", "ids.reserve", "ids.grant." + instance, "ids.load.x.order"} {
		if err := o.conn.PublishRequest("ids.segment.order", reply, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.conn.Publish("ids.segment.order", nil); err != nil { // no reply subject: no ID
		t.Fatal(err)
	}
	flush(t, o.conn)
	o.untouched(t)
	createTag(t, o.url, "invoice") // which takes a load
	o.untouched(t)
}
