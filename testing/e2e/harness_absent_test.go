package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
	proc "github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/proxy"
)

// absent is a worker that is away for a while, without knowing it.
type absent struct {
	*process
	way   string
	leave func(t *testing.T) // returns once it is away
	back  func()
}

// startAbsent starts a worker for each way of being away. They have to leave in
// this order: the first takes a request with it, which must not go to another.
func (s *raiseSite) startAbsent() (workers []*process, all []absent) {
	s.t.Helper()
	via := func() (*proxy.Proxy, *process) {
		p := proxy.Start(s.t, s.net.URL())
		return p, settings{}.startWorkerVia(s.t, p.URL())
	}
	file := filepath.Join(s.t.TempDir(), "stop")
	taken := settings{binary: stoppingBinary(s.t), env: []string{stopVariable + "=" + file}}.startWorkerVia(s.t, s.net.URL())
	all = append(all, absent{taken, "frozen between its take and its reply", func(t *testing.T) { s.stopTaking(t, taken, file) }, taken.resume})
	frozen := s.startWorkers(1)[0]
	all = append(all, absent{frozen, "frozen", func(*testing.T) { frozen.pause() }, frozen.resume})
	p, held := via()
	all = append(all, absent{held, "partitioned", func(*testing.T) { p.Hold() }, p.Release})
	q, cut := via()
	all = append(all, absent{cut, "cut off", func(*testing.T) { q.Refuse() }, q.Accept})
	for _, a := range all {
		workers = append(workers, a.process)
	}
	return workers, all
}

// takenTag is the tag at whose request a worker stops that has taken IDs for it.
const takenTag = "taken"

// stopTaking asks for IDs until the worker has stopped before it sends them. Its
// caller waits for the answer until the test ends.
func (s *raiseSite) stopTaking(t *testing.T, worker *process, file string) {
	t.Helper()
	write(t, filepath.Dir(file), filepath.Base(file), takenTag)
	client := s.dial(t)
	s.wg.Go(func() {
		for left := error(nil); left == nil && s.asking.Err() == nil; {
			_, _ = s.request(client, takenTag, 1, natstest.Patience)
			_, left = os.Stat(file)
		}
	})
	natstest.Eventually(t, "the worker has taken an ID and stops", func() bool {
		_, err := os.Stat(file)
		return errors.Is(err, os.ErrNotExist)
	})
	proc.AwaitStopped(worker.cmd.Process.Pid)
}

// stopVariable names the file to the worker.
const stopVariable = "E2E_STOP"

// stopSource is added to worker/internal/answer. Any thread may get the signal,
// so the one that sends it waits until it is stopped.
const stopSource = `package answer

import (
	"os"
	"syscall"
	"time"
)

func stopBeforeReply(tag string) {
	file := os.Getenv("` + stopVariable + `")
	if text, err := os.ReadFile(file); err == nil && string(text) == tag && os.Remove(file) == nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Second)
	}
}
`

// takeLine is the line of answer's nats.go behind which a worker stops.
const takeLine = "\tif ids, hit := e.alloc.Take(tag, n); hit {\n"

// stoppingBinary is idworker with a seam that the real one lacks: a worker that
// has taken IDs of the tag that a file names removes the file, and stops its own
// process before it replies.
func stoppingBinary(t testing.TB) string {
	t.Helper()
	path, err := buildStopping()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildStopping = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../worker/internal/answer")
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, "nats.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	if bytes.Count(text, []byte(takeLine)) != 1 {
		return "", errors.New("worker/internal/answer/nats.go does not read as expected")
	}
	text = bytes.Replace(text, []byte(takeLine), []byte(takeLine+"\t\tstopBeforeReply(tag)\n"), 1)
	changed, added, list := filepath.Join(buildDir, "nats.go"), filepath.Join(buildDir, "stop.go"), filepath.Join(buildDir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed, filepath.Join(dir, "stop.go"): added}})
	err = errors.Join(err, os.WriteFile(changed, text, 0o600), os.WriteFile(added, []byte(stopSource), 0o600), os.WriteFile(list, overlay, 0o600))
	if err != nil {
		return "", err
	}
	return build("idworker-stopping", append(proc.RaceFlags(), "-overlay="+list)...)
})
