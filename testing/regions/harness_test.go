package regions

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	proc "github.com/idworker/idworker/testing/process"
)

// The binaries, built by TestMain.
var idworker, natsServer string

func TestMain(m *testing.M) {
	if os.Getenv("IDWORKER_TESTS") != "release" {
		fmt.Println("left to make check-packages")
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "idworker-regions-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if idworker, err = proc.Build(dir, "idworker", proc.Command); err == nil {
		natsServer, err = proc.Build(dir, "nats-server", proc.NATSServer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// program is a running process, which ends with its test.
type program struct {
	*proc.Running
	t testing.TB
}

func launch(t testing.TB, binary string, env []string, args ...string) *program {
	t.Helper()
	return &program{proc.Program{Binary: binary, Env: env}.Start(t, args...), t}
}

// logs waits until the process has logged a text.
func (p *program) logs(text string) {
	p.t.Helper()
	p.AwaitLog(p.t, text)
}

// stop ends the process by SIGTERM.
func (p *program) stop() {
	p.t.Helper()
	p.Stop(p.t)
}

func readFile(t testing.TB, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace replaces the only match of a pattern.
func replace(t testing.TB, text, pattern, by string) string {
	t.Helper()
	return replaceFunc(t, text, pattern, func(string) string { return by })
}

func replaceFunc(t testing.TB, text, pattern string, by func(string) string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	if n := len(re.FindAllString(text, -1)); n != 1 {
		t.Fatalf("%d matches of %s, want 1", n, pattern)
	}
	return re.ReplaceAllStringFunc(text, by)
}
