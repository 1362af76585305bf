package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// containerVariable holds the [container] that this process is to become.
const containerVariable = "IDWORKER_TEST_CONTAINER"

func TestMain(m *testing.M) {
	if text := os.Getenv(containerVariable); text != "" {
		var c container
		err := json.Unmarshal([]byte(text), &c)
		if err == nil {
			err = c.become()
		}
		fmt.Fprintln(os.Stderr, "container:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// container is a process whose root is an unpacked image.
type container struct {
	Root string // the unpacked image
	At   string // an empty folder, where the root is mounted
	Dir  string
	Args []string
	Env  []string

	User, Group int
}

// become does to this process, which is alone in its namespaces, the same as a
// container engine: a read-only root with a writable /data, and no rights. It
// returns only errors.
func (c container) become() error {
	runtime.LockOSThread()
	volume := filepath.Join(c.At, "data")
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"private mounts", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount the root", func() error { return unix.Mount(c.Root, c.At, "", unix.MS_BIND, "") }},
		{"mount it read-only", func() error {
			return unix.Mount("", c.At, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
		}},
		{"mount the volume", func() error { return unix.Mount(filepath.Join(c.Root, "data"), volume, "", unix.MS_BIND, "") }},
		{"change to the root", func() error { return unix.Chdir(c.At) }},
		{"change the root", func() error { return unix.PivotRoot(".", ".") }},
		{"leave the old root", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		{"drop capabilities", dropCapabilities},
		{"drop groups", func() error { return syscall.Setgroups(nil) }},
		{"change the group", func() error { return syscall.Setresgid(c.Group, c.Group, c.Group) }},
		{"change the user", func() error { return syscall.Setresuid(c.User, c.User, c.User) }},
		{"no new privileges", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		// A change of the user resets it.
		{"die with the test", func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }},
		{"working directory", func() error { return unix.Chdir(c.Dir) }},
		{"execute " + c.Args[0], func() error { return syscall.Exec(c.Args[0], c.Args, c.Env) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// dropCapabilities keeps this thread, and what it executes, from any capability.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL { // beyond the kernel's last
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// site is where a container of a test answers.
type site struct{ nats, http string }

func newSite(t *testing.T) site {
	return site{freeport.Address(t), freeport.Address(t)}
}

// answers waits until the container is ready, and gets IDs of both kinds.
func (s site) answers(t *testing.T, binary string, ended func() bool) {
	t.Helper()
	natstest.Eventually(t, "/readyz is 200", func() bool {
		if ended() {
			t.Fatal("the process ended")
		}
		reply, err := http.Get("http://" + s.http + "/readyz")
		if err == nil {
			_ = reply.Body.Close()
		}
		return err == nil && reply.StatusCode == http.StatusOK
	})
	cmd := exec.Command(binary, "tag", "create", "order", "--server", "nats://"+s.nats)
	cmd.Env = process.NeutralEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tag create: %v\n%s", err, out)
	}
	nc, err := nats.Connect("nats://" + s.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	client := messages.NewClient(nc, messages.DefaultPrefix)
	id, err := client.Next(ctx, "order")
	if err != nil || id != 1 {
		t.Errorf("first ID %d, %v", id, err)
	}
	snowflake, err := client.Snowflake(ctx)
	if err != nil || snowflake <= 0 {
		t.Errorf("snowflake ID %d, %v", snowflake, err)
	}
	t.Logf("/readyz is 200; first ID %d, snowflake ID %d", id, snowflake)
}

// unpack unpacks the image for this processor, with owners and modes.
func unpack(t *testing.T, b *built) (root string, c container) {
	t.Helper()
	root = t.TempDir()
	image, ok := b.platforms()[runtime.GOARCH]
	if !ok {
		t.Fatalf("no image for %s", runtime.GOARCH)
	}
	b.eachFile(image, func(h *tar.Header, data []byte) {
		path, mode := filepath.Join(root, h.Name), h.FileInfo().Mode().Perm()
		var err error
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, mode)
		} else {
			err = os.WriteFile(path, data, mode)
		}
		if err == nil {
			err = os.Chown(path, h.Uid, h.Gid)
		}
		if err == nil {
			err = os.Chmod(path, mode) // whatever the umask
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	config := b.config(image).Config
	return root, container{
		Root: root, At: t.TempDir(), Dir: config.WorkingDir,
		Args: append(config.Entrypoint, config.Cmd...), Env: config.Env,
	}
}

// TestImageRuns: without capabilities, and with an otherwise empty root that is
// read-only, the image's command serves IDs, is ready, writes only to its
// volume, and ends cleanly on SIGTERM. It does so as the image's user, and as any
// other user of the group 0, which is how OpenShift runs images.
func TestImageRuns(t *testing.T) {
	tier.Release(t)
	if os.Geteuid() != 0 {
		t.Skip("left out: needs root, to mount an empty root")
	}
	t.Run("as the image's user", func(t *testing.T) { runs(t, 65534, 65534) })
	t.Run("as a user of OpenShift", func(t *testing.T) { runs(t, 1000680000, 0) })
}

// runs runs the image as a user and a group.
func runs(t *testing.T, user, group int) {
	b := open(t)
	root, c := unpack(t, b)
	s := newSite(t)
	c.Env = append(c.Env, "IDWORKER_LISTEN="+s.nats, "IDWORKER_HTTP="+s.http)
	c.User, c.Group = user, group
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stderr process.Text
	cmd := exec.Command(self)
	cmd.Env = []string{containerVariable + "=" + string(text)}
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	runtime.LockOSThread() // the kernel kills the process when this thread ends
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // see ProcessState
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("stderr:\n%s", stderr.Tail())
		}
	})
	hasEnded := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	t.Log("by other means than a container engine: mount, pivot_root and setresuid, in new namespaces of mounts, processes, IPC and names")
	s.answers(t, filepath.Join(root, "usr/local/bin/idworker"), hasEnded)
	checkRights(t, cmd.Process.Pid, user, group)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "it ends", hasEnded)
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d on SIGTERM", code)
	}
	checkWritten(t, root)
}

// checkRights fails unless the kernel describes a process without rights.
func checkRights(t *testing.T, pid, user, group int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", user), fmt.Sprintf("Gid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", group), "Groups:\t \n", "NoNewPrivs:\t1\n",
		"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n",
		"CapBnd:\t0000000000000000\n", "CapAmb:\t0000000000000000\n",
	} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the kernel does not report %q:\n%s", want, status)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(mounts)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], " / ") || !strings.Contains(lines[0], " ro,") || !strings.Contains(lines[1], " /data ") {
		t.Errorf("mounts: %q, expected a read-only root and /data", lines)
	}
	t.Logf("user %d, no capability, no new privileges, mounts:\n%s", user, mounts)
}

// checkWritten logs what is in the volume, and fails if that is nothing.
func checkWritten(t *testing.T, root string) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(root, "data"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Errorf("files in the volume: %v, %v", files, err)
	}
	t.Logf("%d files below /data, such as %s", len(files), files[0])
}

// TestImageRunsInDocker: the same, if a Docker engine answers.
func TestImageRunsInDocker(t *testing.T) {
	tier.Release(t)
	if out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").Output(); err != nil {
		t.Skipf("left out: no Docker engine answers (%v %s); TestImageRuns runs the contents by other means", err, out)
	}
	b := open(t)
	root, _ := unpack(t, b)
	docker := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("docker", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("docker %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	// An engine without containerd's images has a name for each processor.
	var name string
	for line := range strings.Lines(docker("load", "-i", b.path)) {
		loaded := strings.TrimSpace(strings.TrimPrefix(line, "Loaded image: "))
		if !strings.HasSuffix(loaded, "-amd64") && !strings.HasSuffix(loaded, "-arm64") || strings.HasSuffix(loaded, "-"+runtime.GOARCH) {
			name = loaded
		}
	}
	s := newSite(t)
	id := docker("run", "-d", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"-p", s.nats+":4222", "-p", s.http+":9090", "-e", "IDWORKER_LISTEN=0.0.0.0:4222", "-e", "IDWORKER_HTTP=0.0.0.0:9090", name)
	t.Cleanup(func() { docker("rm", "-f", "-v", id) })
	s.answers(t, filepath.Join(root, "usr/local/bin/idworker"), func() bool {
		return docker("inspect", "--format", "{{.State.Running}}", id) == "false"
	})
	docker("stop", "--time", fmt.Sprint(int(natstest.Patience/time.Second)), id)
	if code := docker("inspect", "--format", "{{.State.ExitCode}}", id); code != "0" {
		t.Errorf("exit code %s on SIGTERM", code)
	}
}
