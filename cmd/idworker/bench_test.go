package main

import "testing"

// TestServerElsewhere: load goes to another machine only with --remote.
func TestServerElsewhere(t *testing.T) {
	for address, here := range map[string]bool{"127.0.0.1:4222": true, "[::1]:4222": true, "192.0.2.1:4222": false, "[2001:db8::1]:4222": false, "": false} {
		if err := new(benchCmd).checkServer(address); here != (err == nil) {
			t.Errorf("%s: %v", address, err)
		}
		if err := (&benchCmd{Remote: true}).checkServer(address); err != nil {
			t.Errorf("%s, meant: %v", address, err)
		}
	}
}
