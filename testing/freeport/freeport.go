// Package freeport gives tests ports that stay reserved until the test ends.
//
// A port found by listening on port 0 and closing again is free for every
// process: before the test's server takes it, or while that server is down, the
// kernel may assign it to another listener, or to an end of any of the
// thousands of connections that tests make. So these ports come from below the
// kernel's range, and a lock holds each of them that the tests of all packages
// respect.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Linux gives out ports from 32768 on, other systems from 49152 on.
const (
	first = 15_000
	last  = 32_000
)

// held are the ports of this process. A file has a byte for each port, locked
// by the process that holds the port; the kernel unlocks it when that process
// ends.
var held struct {
	sync.Mutex
	file  *os.File
	ports map[int]bool
}

// Get returns a port of 127.0.0.1 that no process listens on. Until this test
// ends, Get returns it to no other test.
func Get(t testing.TB) int {
	t.Helper()
	port, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release(port) })
	return port
}

// Address is 127.0.0.1 with a port that Get returned.
func Address(t testing.TB) string {
	t.Helper()
	return address(Get(t))
}

// Take is Get for a server that outlives its test: the port is held until the
// process ends.
func Take() (int, error) {
	held.Lock()
	defer held.Unlock()
	if err := open(); err != nil {
		return 0, err
	}
	for range last - first {
		port := first + rand.IntN(last-first)
		if held.ports[port] || lock(port, syscall.F_WRLCK) != nil {
			continue
		}
		if isFree(port) {
			held.ports[port] = true
			return port, nil
		}
		_ = lock(port, syscall.F_UNLCK)
	}
	return 0, fmt.Errorf("no free port from %d to %d", first, last)
}

func release(port int) {
	held.Lock()
	defer held.Unlock()
	delete(held.ports, port)
	_ = lock(port, syscall.F_UNLCK)
}

// open opens the file. It stays open, for closing it would unlock everything.
func open() (err error) {
	if held.file != nil {
		return nil
	}
	name := filepath.Join(os.TempDir(), fmt.Sprintf("idworker-test-ports-%d", os.Getuid()))
	held.ports = make(map[int]bool)
	held.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// lock sets or clears the lock on a port's byte, without waiting.
func lock(port int, kind int16) error {
	return syscall.FcntlFlock(held.file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Start: int64(port), Len: 1})
}

// isFree dials the port. If it listened instead, a child forked at that moment
// would keep the port open until it has executed its program.
func isFree(port int) bool {
	c, err := net.DialTimeout("tcp", address(port), time.Second)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Listen listens on a port that Get returned. It retries: a child forked while
// the port was last open may hold it for a moment.
func Listen(port int) (l net.Listener, err error) {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if l, err = net.Listen("tcp", address(port)); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return l, err
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
