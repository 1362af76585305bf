package api

import "time"

// Timed returns a configuration that waits so long for clients, and rereads
// files often.
func Timed(cfg Config, clients time.Duration) Config {
	cfg.requestTimeout, cfg.idleTimeout, cfg.rereadEvery = clients, clients, 20*time.Millisecond
	return cfg
}

// Drained returns a configuration that gives callers so long to leave at a stop.
func Drained(cfg Config, callers time.Duration) Config {
	cfg.drainTime = callers
	return cfg
}
