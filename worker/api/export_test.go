package api

import "time"

// Timed returns a configuration that waits for senders for so long, and looks at
// files again soon.
func Timed(cfg Config, senders time.Duration) Config {
	cfg.clientTimeout, cfg.restTimeout, cfg.refreshEvery = senders, senders, 20*time.Millisecond
	return cfg
}
