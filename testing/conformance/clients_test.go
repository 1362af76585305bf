package conformance

import (
	"os"
	"os/exec"
	"testing"

	"github.com/idworker/idworker/testing/tier"
)

// goClient is the package messages. Its driver is that package's test binary,
// which reaches clocks and buffers.
var goClient = client{name: "go", start: func(t testing.TB) *exec.Cmd {
	path, err := goDriver()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "IDWORKER_CONFORMANCE_DRIVER=1")
	return cmd
}}

// javaClient is messages/clients/java. Its driver is a class of the client's
// tests, which reaches clocks and buffers.
var javaClient = client{name: "java", start: func(t testing.TB) *exec.Cmd {
	tier.All(t)
	return javaDriver.command(t)
}}
