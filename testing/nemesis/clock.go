package nemesis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ClockFile sets the time of day of a process that was built with [ClockOverlay].
// Timers and elapsed times follow the machine, as they do when a clock is set.
type ClockFile struct{ Path string }

// clockVariable names the file in the environment of a process.
const clockVariable = "NEMESIS_CLOCK"

// Set has the clock differ by an offset, and from now on go faster by some
// millionths.
func (c ClockFile) Set(offset time.Duration, ppm int64) error {
	next := c.Path + ".next"
	text := fmt.Sprintf("%020d %020d\n", int64(offset), ppm)
	return errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, c.Path))
}

// Env is the variable that names the file to a process.
func (c ClockFile) Env() string { return clockVariable + "=" + c.Path }

// timeNow is the line of package time that reads the kernel's clock.
const timeNow = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"

// clockSource is added to package time. It cannot import os.
const clockSource = `package time

import (
	"sync/atomic"
	"syscall"
)

var nemesisOffset atomic.Int64

func nemesisNow() (sec int64, nsec int32, mono int64) {
	sec, nsec, mono = runtimeNow()
	if o := nemesisOffset.Load(); o != 0 {
		n := int64(nsec) + o%1e9
		sec += o/1e9 + n/1e9
		if n %= 1e9; n < 0 {
			sec, n = sec-1, n+1e9
		}
		nsec = int32(n)
	}
	return sec, nsec, mono
}

func init() {
	if file, found := syscall.Getenv("` + clockVariable + `"); found {
		go nemesisFollow(file)
	}
}

func nemesisFollow(file string) {
	var offset, ppm, since int64
	for ; ; Sleep(10 * Millisecond) {
		if o, p, ok := nemesisRead(file); ok && (o != offset || p != ppm) {
			offset, ppm, since = o, p, runtimeNano()
		}
		nemesisOffset.Store(offset + (runtimeNano()-since)/1000*ppm/1000)
	}
}

func nemesisRead(file string) (offset, ppm int64, ok bool) {
	fd, err := open(file)
	if err != nil {
		return 0, 0, false
	}
	defer closefd(fd)
	var buf [41]byte
	if n, err := read(fd, buf[:]); n != len(buf) || err != nil {
		return 0, 0, false
	}
	return nemesisNumber(buf[:20]), nemesisNumber(buf[21:]), true
}

func nemesisNumber(text []byte) (n int64) {
	for _, digit := range text {
		if '0' <= digit && digit <= '9' {
			n = n*10 + int64(digit-'0')
		}
	}
	if text[0] == '-' {
		return -n
	}
	return n
}
`

// errGo: this version of Go is not known.
var errGo = errors.New("package time does not read as expected")

// ClockOverlay writes the flag for go build with which a program follows its
// [ClockFile].
func ClockOverlay(dir string) (flag string, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	if bytes.Count(text, []byte(timeNow)) != 1 {
		return "", errGo
	}
	text = bytes.Replace(text, []byte(timeNow), []byte(strings.Replace(timeNow, "runtimeNow", "nemesisNow", 1)), 1)
	now, follow, list := filepath.Join(dir, "time.go"), filepath.Join(dir, "nemesis.go"), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(source, "time.go"): now, filepath.Join(source, "nemesis.go"): follow,
	}})
	return "-overlay=" + list, errors.Join(err, os.WriteFile(now, text, 0o600), os.WriteFile(follow, []byte(clockSource), 0o600), os.WriteFile(list, overlay, 0o600))
}
