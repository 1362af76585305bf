package worker

import (
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/neighbours"
)

// The names under which workers appear in the NATS services API.
const (
	ServiceName          = "idworker"
	snowflakeServiceName = "idworker-snowflake" // while there is a worker ID
)

// processInfo is what the halves know of the process that they are part of.
type processInfo struct {
	cfg          Config
	instance     string // names the process; each start has a new one
	installation neighbours.Installation
	foreign      *foreignMessages
	js           jetstream.JetStream
	stats        func() Stats // of the whole process
	failed       chan error   // see [Process.Failed]; has room for one
}

// serviceConfig describes a micro service of the process.
func (p processInfo) serviceConfig(name string) micro.Config {
	return micro.Config{
		Name:        name,
		Version:     p.cfg.Version,
		Description: "unique 64-bit IDs",
		QueueGroup:  p.cfg.Prefix.QueueGroup(),
		Metadata: map[string]string{
			"instance":     p.instance,
			"installation": p.installation.ID,
			"role":         string(p.cfg.Role),
			"store":        p.cfg.StoreName,
			"prefix":       string(p.cfg.Prefix),
			"layout":       p.cfg.Lease.Layout.String(),
		},
		StatsHandler: func(*micro.Endpoint) any { return p.stats() },
	}
}
