package clients

import "testing"

// TestTypeScript: the client's format, types and tests are right.
func TestTypeScript(t *testing.T) { NPM(t, "test") }

// TestPython: the client's format, types and tests are right.
func TestPython(t *testing.T) {
	for _, command := range [][]string{{"ruff", "format", "--check", "."}, {"ruff", "check", "."}, {"mypy"}, {"pytest", "-q"}} {
		run(t, Python, PythonProgram(t, command[0]), command[1:]...)
	}
}
