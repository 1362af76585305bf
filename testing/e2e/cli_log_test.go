package e2e

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	proc "github.com/idworker/idworker/testing/process"
)

// TestReaderOfTheLog: the reader of stderr stops reading a pipe of 4 KB, and
// later ends. The process answers requests by NATS and HTTP as before, counts
// the lines that it could not write, and stops at SIGTERM.
func TestReaderOfTheLog(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if _, err := unix.FcntlInt(writer.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	address, page, api := freeport.Address(t), freeport.Address(t), freeport.Address(t)
	p := proc.Program{Binary: binary, Log: writer, Env: gorace()}.Start(t, "serve",
		"--listen", address, "--data", t.TempDir(), "--http", page, "--api", api, "--log-level", "debug")
	_ = writer.Close()
	url := "nats://" + address
	natstest.Eventually(t, "the process is ready", func() bool { return httpStatus("http://"+page+"/readyz") == http.StatusOK })

	createTag(t, url, "order")
	conn := connect(t, url)
	ids := requester{conn: conn}
	byNATS := func() int {
		msg, err := conn.Request("ids.segment.nosuch", nil, natstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		code, _ := strconv.Atoi(refusal(msg))
		return code
	}
	byHTTP := func(tag string) func() int {
		return func() int { return httpStatus("http://" + api + "/v1/segment/" + tag) }
	}
	answers := func(want int, request func() int) {
		t.Helper()
		natstest.Eventually(t, "an answer of a process that is busy for a moment", func() bool {
			code := request()
			busy := code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable
			if code != want && !busy {
				t.Fatalf("status %d, want %d", code, want)
			}
			return !busy
		})
	}
	serves := func() {
		t.Helper()
		for range 500 {
			answers(http.StatusNotFound, byNATS)
			answers(http.StatusNotFound, byHTTP("nosuch"))
			ids.next(t, "order")
		}
		answers(http.StatusOK, byHTTP("order"))
	}
	serves() // into a pipe that is full
	_ = reader.Close()
	serves()
	dropped := regexp.MustCompile(`idworker_log_lines_dropped_total\{[^}]*\} [1-9]`)
	natstest.Eventually(t, "lines are counted", func() bool {
		// Each refused request may log a line.
		_, _ = conn.Request("ids.segment.nosuch", nil, natstest.Patience)
		return dropped.MatchString(httpBody("http://" + page + "/metrics"))
	})
	p.Stop(t)
}

// httpStatus returns the status of a GET, or 0.
func httpStatus(url string) int {
	r, err := http.Get(url)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return r.StatusCode
}

// httpBody returns the body of a GET, or "".
func httpBody(url string) string {
	r, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer func() { _ = r.Body.Close() }()
	body, _ := io.ReadAll(r.Body)
	return string(body)
}
