//go:build !linux

package process

// AwaitStopped does nothing here: that a process was sent SIGSTOP has to do.
func AwaitStopped(int) {}
