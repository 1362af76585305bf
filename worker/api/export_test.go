package api

import "time"

// Timed returns a configuration that waits so long for clients, and rereads
// files often.
func Timed(cfg Config, clients time.Duration) Config {
	cfg.requestTimeout, cfg.idleTimeout, cfg.rereadEvery = clients, clients, 20*time.Millisecond
	return cfg
}
