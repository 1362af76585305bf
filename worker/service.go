package worker

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
)

// The names under which processes appear in the NATS services API.
const (
	// Each process, of any role.
	ProcessServiceName   = "idworker-process"
	ServiceName          = "idworker"           // requests for segments
	snowflakeServiceName = "idworker-snowflake" // while there is a worker ID
)

// service describes a micro service of the process. The data in STATS is the
// process's [Report] or, of the services that get requests, the [Stats] in it.
func (p *Process) service(name string) micro.Config {
	cfg := micro.Config{
		Name:        name,
		Version:     p.cfg.Version,
		Description: "unique 64-bit IDs",
		QueueGroup:  p.cfg.Prefix.QueueGroup(),
		Metadata: map[string]string{
			"instance":     p.self.Instance,
			"installation": p.self.Installation,
			"created":      p.self.Created.UTC().Format(time.RFC3339Nano),
			"host":         p.self.Host,
			"role":         string(p.self.Role),
			"store":        p.cfg.StoreName,
			"prefix":       string(p.cfg.Prefix),
		},
		StatsHandler: func(*micro.Endpoint) any {
			report := p.reports.latest(p)
			if name == ProcessServiceName {
				return report
			}
			return report.Stats
		},
	}
	if p.cfg.Role.Answers() {
		cfg.Metadata["layout"] = p.self.Layout.String()
		cfg.Metadata["datacenter"] = strconv.FormatInt(p.self.Datacenter, 10)
	}
	return cfg
}

// loaderSubject is the subject of the service's endpoint in a loader. If no
// loader is connected, a server returns "no responders" for it, which proves
// the absence of loaders; see [LoaderListens].
func loaderSubject(p messages.Prefix) string { return string(p) + ".process.loader" }

// processSubject is the subject of the service's endpoint.
func processSubject(p messages.Prefix, role Role) string {
	if role.Loads() {
		return loaderSubject(p)
	}
	return string(p) + ".process.worker"
}

// register registers the service of the process on its control connection. It
// answers PING, INFO and STATS even while the process is in no queue group.
func (p *Process) register() (micro.Service, error) {
	cfg := p.service(ProcessServiceName)
	cfg.QueueGroup, cfg.QueueGroupDisabled = "", true
	answer := micro.HandlerFunc(func(req micro.Request) { _ = req.Respond([]byte(p.self.Instance)) })
	service, err := registerService(p.cfg.Control, cfg, "process", processSubject(p.cfg.Prefix, p.cfg.Role), answer)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", ProcessServiceName, err)
	}
	return service, nil
}

// reportCache keeps a report for four times as long as making it took. So a
// process spends at most a fifth of a processor on reports, at any request
// rate.
type reportCache struct {
	mu     sync.Mutex
	report Report
	until  time.Time
}

const reportShare = 4

func (c *reportCache) latest(p *Process) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began := time.Now(); began.After(c.until) {
		c.report = p.Report(MaxReportTags)
		c.report.fit()
		c.until = time.Now().Add(reportShare * time.Since(began))
	}
	return c.report
}
