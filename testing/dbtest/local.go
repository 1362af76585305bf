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

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

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

// local is a server that was started from a program on the machine.
type local struct {
	brand   *brand
	program string
	args    []string // in addition to the brand's
	dir     string   // holds data, log and socket
	at      account

	shell *exec.Cmd // nil while the server is killed
	pipe  io.WriteCloser
	pid   int // the server's
}

// install starts a server from a program that is on the machine, with more
// arguments. It stops when the process ends, if not before.
func (b *brand) install(args ...string) (*local, error) {
	program, err := b.need.Find()
	if err != nil {
		return nil, err
	}
	s, err := b.folder(program)
	if err == nil {
		s.args = args
		if err = s.fill(); err == nil {
			err = s.startSomewhere()
		}
		if err != nil {
			s.remove()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	return s, nil
}

// folder makes the folder of a server, which is empty yet.
func (b *brand) folder(program string) (*local, error) {
	// Short, and open to another user: sockets have short names, and PostgreSQL
	// refuses to run as root.
	dir, err := os.MkdirTemp("", "dbtest")
	if err != nil {
		return nil, err
	}
	s := &local{brand: b, program: program, dir: dir, at: account{host: "127.0.0.1", user: "root", password: password}}
	if b == postgresServer {
		s.at.user = "postgres"
	}
	if owner := s.credential(); owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			s.remove()
			return nil, err
		}
	}
	return s, nil
}

// fill fills the data folder with a copy of the program's template, which
// the first use made: making it takes seconds.
func (s *local) fill() error {
	template, err := s.template()
	if err != nil {
		return s.run(s.brand.fill(s.program, s.dir)...)
	}
	if _, err := os.Stat(template); err == nil {
		return replaceFolder(template, s.data())
	}
	if err := s.run(s.brand.fill(s.program, s.dir)...); err != nil {
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
func (s *local) template() (string, error) {
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
func (s *local) run(args ...string) error {
	cmd := s.command(args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out[max(0, len(out)-2000):])
	}
	return nil
}

// startSomewhere starts the server on a free port, which it keeps.
func (s *local) startSomewhere() (err error) {
	for range 3 { // another process may take the port first
		port, err := freeport.Take()
		if err != nil {
			return err
		}
		s.at.port = strconv.Itoa(port)
		if err = s.start(); err == nil {
			return nil
		}
	}
	return err
}

// start runs the server, and returns when it answers.
func (s *local) start() error {
	// A killed server leaves resources behind that the system frees later, such
	// as shared memory until the last of its processes is gone.
	return natstest.Await(natstest.Patience/4, "the server", func() error {
		err := s.startOnce()
		if err != nil && !errors.Is(err, errGone) {
			err = fmt.Errorf("%w: %w", natstest.ErrFinal, err)
		}
		return err
	})
}

// errGone: the server ended before it answered.
var errGone = errors.New("the server ended")

func (s *local) startOnce() error {
	args := append([]string{"/bin/sh", "-c", supervise, "dbtest", s.dir}, slices.Concat(s.brand.serve(s.program, s.dir, s.at.port), s.args)...)
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
		err = natstest.Await(natstest.Patience, "its version", func() error {
			if !s.running() {
				return fmt.Errorf("%w: %w", natstest.ErrFinal, errGone)
			}
			_, err := s.brand.version(s.at)
			return err
		})
		if errors.Is(err, errGone) {
			err = errGone // not final
		}
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "server.log"))
		_ = s.kill()
		return fmt.Errorf("%w\n%s", err, log[max(0, len(log)-2000):])
	}
	return nil
}

// running reports whether the server's process is there and no zombie; where
// there is no /proc, it is believed to be.
func (s *local) running() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		_, noProc := os.Stat("/proc/self/stat")
		return noProc != nil
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// command runs as the server's user.
func (s *local) command(args ...string) *exec.Cmd {
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
func (s *local) credential() *syscall.Credential {
	if s.brand != postgresServer || os.Geteuid() != 0 {
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

// signal reaches the server and its processes; the server first, so that no
// process is added while they are counted. When it returns after SIGSTOP, all
// have stopped.
func (s *local) signal(sig syscall.Signal) error {
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

func (s *local) kill() error { return s.end("keep\n") }

func (s *local) remove() {
	_ = s.end("")
	_ = os.RemoveAll(s.dir)
}

// end has the shell kill the server, and returns when both are gone.
func (s *local) end(line string) error {
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

func (s *local) data() string { return filepath.Join(s.dir, "data") }

// replaceFolder makes a folder a copy of another, with the same owners.
func replaceFolder(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if out, err := exec.Command(helper("cp"), "-pR", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w\n%s", err, out)
	}
	return nil
}
