package embedded

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestOneServerPerFolder: a folder in use is refused to this process and to
// others. Both get it once it is free.
func TestOneServerPerFolder(t *testing.T) {
	t.Parallel()
	other := func(path string) int {
		t.Helper()
		program := exec.Command(os.Args[0])
		program.Env = append(os.Environ(), lockerEnv+"="+path)
		out, err := program.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, out)
		}
		return program.ProcessState.ExitCode()
	}
	path := filepath.Join(t.TempDir(), "some", "folder")
	first := start(t, config(path))
	err := fails(t, config(path))
	if !errors.Is(err, ErrInUse) || !errors.Is(err, ErrFolder) || !strings.Contains(err.Error(), path) {
		t.Errorf("second server of this process: %v, want ErrInUse", err)
	}
	if code := other(path); code != inUseCode {
		t.Errorf("another process: exit code %d, want %d", code, inUseCode)
	}
	first.Stop()
	if code := other(path); code != 0 {
		t.Errorf("another process, once the folder is free: exit code %d", code)
	}
	start(t, config(path))
}

// TestInterest: the server counts the subscriptions of all clients, also those
// with wildcards.
func TestInterest(t *testing.T) {
	t.Parallel()
	s := start(t, config(t.TempDir()))
	for i, subject := range []string{"a.b", "a.*", "a.c", ">"} {
		conn, err := nats.Connect(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err = conn.SubscribeSync(subject); err == nil {
			err = conn.Flush()
		}
		want := []int{1, 2, 2, 3}[i]
		if got := s.Interest("a.b"); err != nil || got != want {
			t.Errorf("with %s: %d, %v; want %d", subject, got, err, want)
		}
	}
}

func TestFolderUnusable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lockIsFolder, readOnly := t.TempDir(), t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(lockIsFolder, lockFile), 0o700), os.Chmod(readOnly, 0o500)); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a file":             file,
		"below a file":       filepath.Join(file, "data"),
		"lock is a folder":   lockIsFolder,
		"not to be written":  readOnly,
		"below such a thing": filepath.Join(readOnly, "data"),
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() == 0 && strings.HasPrefix(path, readOnly) {
				t.Skip("root may write everywhere")
			}
			if err := fails(t, config(path)); !errors.Is(err, ErrFolder) || errors.Is(err, ErrInUse) || errors.Is(err, ErrDamaged) {
				t.Errorf("%v, want ErrFolder and nothing more", err)
			}
		})
	}
}

// TestStartFails: after any error, Start leaves the folder unlocked.
func TestStartFails(t *testing.T) {
	t.Parallel()
	unlocked := func(t *testing.T, path string) {
		t.Helper()
		d, err := openData(config(path))
		if err != nil {
			t.Fatalf("after the failure: %v", err)
		}
		d.Close()
	}
	t.Run("jetstream is a file", func(t *testing.T) {
		cfg := config(t.TempDir())
		if err := os.WriteFile(filepath.Join(cfg.Folder, "jetstream"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := fails(t, cfg); !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("%v, want the server's own words", err)
		}
		unlocked(t, cfg.Folder)
	})
	t.Run("stopped before it started", func(t *testing.T) {
		cfg := config(t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Start(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want context.Canceled", err)
		}
		unlocked(t, cfg.Folder)
	})
}

// TestServer: the server has its fixed name, answers at its address, and is
// gone after Stop.
func TestServer(t *testing.T) {
	t.Parallel()
	s := start(t, config(t.TempDir()))
	conn, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if name := conn.ConnectedServerName(); name != ServerName {
		t.Errorf("its name is %q, want %q", name, ServerName)
	}
	if !s.nats.JetStreamConfig().SyncAlways {
		t.Error("does not sync every write")
	}
	address, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if c, err := net.Dial("tcp", address.Host); err == nil {
		_ = c.Close()
		t.Error("still listens after Stop")
	}
	s.Stop() // does nothing
}
