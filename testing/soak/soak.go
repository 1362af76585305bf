// Package soak says how long a test goes on: `make test` proves a promise with few rounds,
// and `make soak` runs the same code with many.
package soak

import "os"

// Pick returns usual, or long if this is a soak, that is, if SOAK is set in the environment.
func Pick[T any](usual, long T) T {
	if os.Getenv("SOAK") != "" {
		return long
	}
	return usual
}
