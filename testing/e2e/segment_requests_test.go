package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// only is a worker without other callers: its IDs have no gaps, unless a failed
// request took some.
type only struct {
	url    string
	client requester
	last   int64
}

// untouched fails the test unless the next ID follows the last.
func (o *only) untouched(t *testing.T) {
	t.Helper()
	id := o.client.next(t, "order")
	if id != o.last+1 {
		t.Errorf("the next ID is %d, want %d", id, o.last+1)
	}
	o.last = id
}

// TestBadRequests: a worker answers every bad request with its fault, uses up
// no ID, and continues.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	createTag(t, s.url, "order")
	o := &only{url: s.url, client: dial(t, s.url)}
	o.client.after = natstest.Patience // an answer that comes late has taken IDs
	o.last = o.client.next(t, "order")
	t.Run("counts", o.counts)
	t.Run("tags", o.tags)
	t.Run("other subjects", o.elsewhere)
	t.Run("carriage return", o.carriageReturn)
}

// counts are also decoded in messages, by its vectors.
func (o *only) counts(t *testing.T) {
	for name, payload := range map[string]string{
		"zero":             "0",
		"negative":         "-1",
		"over the limit":   "10001",
		"2^63":             "9223372036854775808",
		"other digits":     "٣",
		"binary":           "\xff\xfe\x00\x01",
		"header injection": "1\r\nX-Evil: 1",
		"1 MB of digits":   strings.Repeat("1", 1<<20),
	} {
		msg, err := o.client.conn.Request("ids.segment.order", []byte(payload), natstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		code, text := msg.Header.Get("Nats-Service-Error-Code"), msg.Header.Get("Nats-Service-Error")
		if code != "400" || len(msg.Data) > 0 || !strings.Contains(text, "decimal from 1 to 10000") || len(text) > 300 {
			t.Errorf("%s: code %q, data %.60q, text %.400q; want 400, no data, and what is allowed", name, code, msg.Data, text)
		}
		o.untouched(t)
	}
	if ranges := o.client.get(t, "order", 10_000); ranges[0].First != o.last+1 {
		t.Errorf("10000 IDs: %v; want them from %d on", ranges, o.last+1)
	} else {
		o.last = ranges[len(ranges)-1].Last
	}
}

// tags sends requests that client libraries refuse to send: raw bytes of the
// protocol, which any process with a socket can send.
func (o *only) tags(t *testing.T) {
	const refused = "refused by the server"
	for name, test := range map[string]struct{ tag, want string }{
		"star":              {"*", "400"},
		"greater":           {"order.>", "400"},
		"star inside":       {"or*er", "400"},
		"129 bytes":         {strings.Repeat("a", 129), "400"},
		"3000 bytes":        {strings.Repeat("a", 3000), "400"},
		"unicode":           {"bestellung-größe", "400"},
		"not UTF-8":         {"a\xff\xfe", "400"},
		"control character": {"a\x01b", "400"},
		"quote":             {`a"b`, "400"},
		"dot at the end":    {"order.", refused},
		"double dot":        {"shop..order", refused},
		"nothing":           {"", refused},
		"newline":           {"or\nder", refused},
		"space":             {"or der", refused},
		"64 KB":             {strings.Repeat("a", 1<<16), refused},
		"128 bytes":         {strings.Repeat("a", 128), "404"},
		"other case":        {"Order", "404"},
	} {
		status, text := rawRequest(t, o.url, "ids.segment."+test.tag)
		switch {
		case test.want == refused && (status == "503" || status == ""):
			// The subject has no subscriber, or the server hung up.
		case status != test.want || status == "400" && !strings.Contains(text, "allowed"):
			t.Errorf("%s: status %q (%s), want %s and what is allowed", name, status, text, test.want)
		}
		o.untouched(t)
	}
}

// elsewhere sends nonsense to the subjects that are not for callers, and
// requests whose replies would go to other subjects of idworker.
func (o *only) elsewhere(t *testing.T) {
	var instance string
	for instance = range stats(t, o.client.conn, 1) {
		break
	}
	nonsense := []string{"", "1001", "null", "{}", "\xff\x00", strings.Repeat("[", 100_000),
		`{"instance":"` + instance + `","tag":"order","seq":1,"first":-5,"end":5}`,
		`{"instance":"` + instance + `","tag":"order","seq":1,"step":9223372036854775807,"want":1}`,
		`{"instance":"` + instance + `","tag":"order","seq":1,"step":1,"want":-1}`,
		`{"instance":"*","tag":"order","seq":1,"step":10}`,
		`{"instance":"a.b","tag":">","seq":1,"step":10}`,
	}
	for _, subject := range []string{"ids.reserve", "ids.load.x.order", "ids.load." + instance + ".order", "ids.grant." + instance} {
		for _, data := range nonsense {
			if err := o.client.conn.Publish(subject, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A reply to these could be a command, so there is none, and no ID is used
	// up.
	for _, reply := range []string{"ids.segment.order", "ids.reserve", "ids.grant." + instance, "ids.load.x.order"} {
		if err := o.client.conn.PublishRequest("ids.segment.order", reply, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.client.conn.Publish("ids.segment.order", nil); err != nil { // no reply subject: no ID
		t.Fatal(err)
	}
	flush(t, o.client.conn)
	o.untouched(t)
	createTag(t, o.url, "invoice") // which takes a load
	o.untouched(t)
}

// carriageReturn: the server passes on a subject with a carriage return, and no
// client library can read that message, so that the worker's connection breaks
// off before the worker sees anything. All the worker can do is reconnect.
func (o *only) carriageReturn(t *testing.T) {
	conn := dialRaw(t, o.url, "PUB ids.segment.or\rder box 0\r\n\r\nPING\r\n")
	defer func() { _ = conn.Close() }()
	_, _ = bufio.NewReader(conn).ReadString('G') // PONG: the server has it
	o.client.after = 0                           // requests in flight are lost
	if id := o.client.next(t, "order"); id <= o.last {
		t.Errorf("the next ID is %d, after %d", id, o.last)
	}
}

// dialRaw opens a connection and sends the bytes after the client's
// introduction.
func dialRaw(t testing.TB, url, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(natstest.Patience))
	_, _ = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n%s", text)
	return conn
}

// rawRequest sends a request in the bytes of the protocol, and returns the code
// of the error reply, 503 if there is no subscriber, or "" if the server
// complained or hung up instead. IDs fail the test.
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
				t.Errorf("neither an answer nor a refusal of %q", subject)
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
			if _, err := io.ReadFull(in, header); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(string(header), "NATS/1.0 503") {
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
