package conformance

import (
	"os/exec"
	"testing"

	"github.com/idworker/idworker/testing/tier"
)

// goClient is the package messages. Its driver is that package's test binary,
// which reaches clocks and buffers.
var goClient = client{name: "go", start: func(t testing.TB) *exec.Cmd {
	t.Skip("its driver is not written")
	return nil
}}

// javaClient is messages/clients/java.
var javaClient = client{name: "java", start: func(t testing.TB) *exec.Cmd {
	tier.All(t)
	t.Skip("its driver is not written")
	return nil
}}
