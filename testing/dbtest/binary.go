package dbtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/process"
)

// readyWithin bounds a server's start: usually a second or two, but test hosts
// are small and shared.
const readyWithin = 2 * time.Minute

// supervise runs a server until its own input ends, or has a line: then it
// kills the server, and removes its folder unless the line orders it to keep
// the folder. The pipe ends with the test process, even if that is killed. The
// server stays a child of this shell until then, so no other process gets its
// process ID.
const supervise = `dir=$1; shift
"$@" </dev/null >>"$dir/server.log" 2>&1 &
pid=$!
echo $pid
read -r what
kill -9 $(cat /proc/$pid/task/*/children 2>/dev/null) $pid 2>/dev/null
wait
[ "$what" = keep ] || rm -rf "$dir"`

// fromBinary is a server that was started from a program on the machine.
type fromBinary struct {
	kind    *kind
	program string
	args    []string // in addition to the kind's
	dir     string   // holds data, log and socket
	at      endpoint

	shell *exec.Cmd // nil while the server is killed
	pipe  io.WriteCloser
	pid   int // the server's
}

// launchBinary starts a server from a program that is on the machine.
func launchBinary(k *kind, args []string) (Process, endpoint, string, error) {
	program, err := k.need.Find()
	if err != nil {
		return nil, endpoint{}, "", err
	}
	s, err := newFromBinary(k, program)
	if err == nil {
		s.args = args
		if err = s.setUp(); err != nil {
			s.Remove()
		}
	}
	if err != nil {
		return nil, endpoint{}, "", fmt.Errorf("%s: %w", program, err)
	}
	return s, s.at, program, nil
}

// newFromBinary makes the folder of a server that is not installed in it yet.
func newFromBinary(k *kind, program string) (*fromBinary, error) {
	// Short, and open to another user: sockets have short names, and PostgreSQL
	// refuses to run as root.
	dir, err := os.MkdirTemp("", "dbtest")
	if err != nil {
		return nil, err
	}
	s := &fromBinary{kind: k, program: program, dir: dir, at: endpoint{host: "127.0.0.1", user: "root", password: password}}
	if k == postgresKind {
		s.at.user = "postgres"
	}
	if owner := s.credential(); owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			s.Remove()
			return nil, err
		}
	}
	return s, nil
}

// setUp installs the server and starts it.
func (s *fromBinary) setUp() error {
	if err := s.install(); err != nil {
		return err
	}
	return s.startSomewhere()
}

// install fills the data folder with a copy of the program's template, which
// the first use made: making it takes seconds.
func (s *fromBinary) install() error {
	template, err := s.template()
	if err != nil {
		return s.run(s.kind.install(s.program, s.dir)...)
	}
	if _, err := os.Stat(template); err == nil {
		return replaceFolder(template, s.data())
	}
	if err := s.run(s.kind.install(s.program, s.dir)...); err != nil {
		return err
	}
	// Another process may be about to do the same: the first wins.
	own := template + filepath.Base(s.dir)
	if err := replaceFolder(s.data(), own); err != nil {
		return err
	}
	if os.Rename(own, template) != nil {
		return os.RemoveAll(own)
	}
	return nil
}

// template is the path of the program's template, kept for later tests. A new
// version of the program has its own.
func (s *fromBinary) template() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program, err := filepath.EvalSymlinks(s.program)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "idworker-tests")
	name := fmt.Sprintf("%s-%d-%d", filepath.Base(program), info.Size(), info.ModTime().Unix())
	return filepath.Join(cache, name), os.MkdirAll(cache, 0o700)
}

// run runs a command as the server's user, to its end.
func (s *fromBinary) run(args ...string) error {
	cmd := s.command(args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out[max(0, len(out)-2000):])
	}
	return nil
}

// startSomewhere starts the server on a free port, which it keeps.
func (s *fromBinary) startSomewhere() (err error) {
	for range 3 { // another process may take the port first
		if s.at.port, err = freePort(); err != nil {
			return err
		}
		if err = s.Start(); err == nil {
			return nil
		}
	}
	return err
}

// Start runs the server, and returns when it answers.
func (s *fromBinary) Start() error {
	deadline := time.Now().Add(readyWithin)
	for {
		err := s.startOnce()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		// A killed server leaves resources behind that the system frees later,
		// such as shared memory until the last of its processes is gone.
		time.Sleep(50 * time.Millisecond)
		if !errors.Is(err, errGone) {
			return err
		}
	}
}

// errGone: the server ended before it answered.
var errGone = errors.New("the server ended")

func (s *fromBinary) startOnce() error {
	args := append([]string{"/bin/sh", "-c", supervise, "dbtest", s.dir}, slices.Concat(s.kind.serve(s.program, s.dir, s.at.port), s.args)...)
	cmd := s.command(args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.shell, s.pipe = cmd, in
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		s.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err == nil {
		err = s.kind.waitReady(s.at, s.running)
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "server.log"))
		_ = s.Kill()
		return fmt.Errorf("%w\n%s", err, log[max(0, len(log)-2000):])
	}
	return nil
}

// running reports whether the server's process is there and no zombie; where
// there is no /proc, it is believed to be.
func (s *fromBinary) running() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		_, noProc := os.Stat("/proc/self/stat")
		return noProc != nil
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// command runs as the server's user.
func (s *fromBinary) command(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = s.dir
	// MariaDB names temporary tables after its process ID, which is another's
	// too in a /tmp that several containers share. The scripts of servers need
	// programs that PATH may lack.
	cmd.Env = append(os.Environ(), "TMPDIR="+s.dir, "PATH="+os.Getenv("PATH")+":/usr/bin:/bin:/usr/sbin")
	// Not in the group to which a terminal sends its interrupt: the pipe ends
	// it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.credential()}
	return cmd
}

// credential is the server's user, if that is not the test's user: PostgreSQL
// does not run as root.
func (s *fromBinary) credential() *syscall.Credential {
	if s.kind != postgresKind || os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

func (s *fromBinary) Pause() error  { return s.signal(syscall.SIGSTOP) }
func (s *fromBinary) Resume() error { return s.signal(syscall.SIGCONT) }

// signal reaches the server and its processes; the server first, so that no
// process is added while they are counted. When it returns after SIGSTOP, all
// have stopped.
func (s *fromBinary) signal(sig syscall.Signal) error {
	if err := send(s.pid, sig); err != nil {
		return err
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				_ = send(pid, sig) // it may have ended
			}
		}
	}
	return nil
}

func send(pid int, sig syscall.Signal) error {
	err := syscall.Kill(pid, sig)
	if err == nil && sig == syscall.SIGSTOP {
		process.AwaitStopped(pid)
	}
	return err
}

func (s *fromBinary) Kill() error { return s.end("keep\n") }
func (s *fromBinary) Remove() {
	_ = s.end("")
	_ = os.RemoveAll(s.dir)
}

// end has the shell kill the server, and returns when both are gone.
func (s *fromBinary) end(line string) error {
	if s.shell == nil {
		return nil
	}
	_, _ = io.WriteString(s.pipe, line)
	_ = s.pipe.Close()
	err := s.shell.Wait()
	s.shell = nil
	if line == "" {
		return nil
	}
	return err
}

// waitReady returns when the server answers.
func (k *kind) waitReady(at endpoint, running func() bool) error {
	return eventually(readyWithin, func() error {
		if !running() {
			return fatal{errGone}
		}
		_, err := k.version(at)
		return err
	})
}

// fatal is an error that does not go away.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// eventually calls f until it returns nil.
func eventually(timeout time.Duration, f func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := f()
		if err == nil || errors.As(err, &fatal{}) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// freePort is for a server that may outlive the test.
func freePort() (string, error) {
	port, err := freeport.Take()
	return strconv.Itoa(port), err
}
