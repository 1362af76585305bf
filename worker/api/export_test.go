package api

import "time"

// Timed returns a configuration that waits for clients for so long, and rereads
// files soon.
func Timed(cfg Config, clients time.Duration) Config {
	cfg.requestTimeout, cfg.idleTimeout, cfg.rereadEvery = clients, clients, 20*time.Millisecond
	return cfg
}
