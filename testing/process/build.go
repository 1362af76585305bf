package process

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Command is the package of the command idworker, and NATSServer that of
// nats-server as go.mod pins it.
const (
	Command    = "github.com/idworker/idworker/cmd/idworker"
	NATSServer = "github.com/nats-io/nats-server/v2"
)

// RaceFlags are the flags with which go builds a program with the race detector.
// There are none without a C compiler, which it needs.
func RaceFlags() []string {
	if out, err := exec.Command("go", "env", "CGO_ENABLED").Output(); err != nil || strings.TrimSpace(string(out)) != "1" {
		return nil
	}
	return []string{"-race"}
}

// Build compiles a command into a folder, under a name.
func Build(dir, name, command string, flags ...string) (path string, err error) {
	path = filepath.Join(dir, name)
	args := append(append([]string{"build"}, flags...), "-o", path, command)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return path, nil
}
