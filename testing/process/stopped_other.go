//go:build !linux

package process

// AwaitStopped does nothing here: sending SIGSTOP has to suffice.
func AwaitStopped(int) {}
