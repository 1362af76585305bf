package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/httpserver"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/api"
)

// apiFlags are for callers that speak HTTP.
type apiFlags struct {
	API            string `name:"api" help:"Where to answer callers over HTTP, for example 127.0.0.1:8080. Nowhere by default." placeholder:"HOST:PORT"`
	APITLSCert     string `name:"api-tls-cert" help:"Certificate for --api, in PEM. It is read again when it changes." placeholder:"FILE" type:"path"`
	APITLSKey      string `name:"api-tls-key" help:"Key of that certificate." placeholder:"FILE" type:"path"`
	APITokens      string `name:"api-tokens" help:"Which bearer token may ask for what: a line for each, with the token, tags or patterns like order.*, and @snowflake. It is read again when it changes." placeholder:"FILE" type:"path"`
	APIInsecure    bool   `name:"api-insecure" help:"Let other machines reach --api even without a certificate, or without tokens, and by any name."`
	APIConnections int    `name:"api-connections" help:"Connections to --api at a time, 1 to 100000." default:"4096"`
}

// openAPI starts to listen for callers, if that is asked for. They get 503 until what it returns is told
// of a worker.
func (s *serveCmd) openAPI(ctx context.Context, layout worker.Config, log *zap.Logger) (*callers, error) {
	f := s.apiFlags
	if f.API == "" {
		if f.APITLSCert != "" || f.APITLSKey != "" || f.APITokens != "" || f.APIInsecure {
			return nil, explain.Usage(errors.New("--api-tls-cert, --api-tls-key, --api-tokens and --api-insecure are for --api, which says where to listen"))
		}
		return &callers{}, nil
	}
	if s.Role == worker.RoleLoader {
		return nil, explain.Usage(errors.New("--api: a loader answers no requests; give it to the workers"))
	}
	if _, _, err := httpserver.SplitAddress("--api", f.API); err != nil {
		return nil, err
	}
	server, err := api.Open(ctx, api.Config{
		Address: f.API, Certificate: f.APITLSCert, Key: f.APITLSKey, Tokens: f.APITokens, Exposed: f.APIInsecure,
		Hosts: s.AllowHost, Connections: f.APIConnections, Wait: s.Wait, Layout: layout.Lease.Layout, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--api: %w", err)
	}
	return &callers{server}, nil
}

// callers are those that speak HTTP, if there are any.
type callers struct{ *api.Server }

// answer has them answered by a worker, whose installation their metrics name.
func (c *callers) answer(w *worker.Process, metrics *prometheus.Registry, log *zap.Logger) error {
	if c.Server == nil {
		return nil
	}
	ofInstallation(w.Installation(), metrics, c.Server)
	source, err := w.Direct()
	if errors.Is(err, nats.ErrPermissionViolation) {
		err = natsconn.Denied(err, err)
	}
	if err != nil {
		return fmt.Errorf("--api: %w", err)
	}
	c.Answer(source)
	log.Info("answering HTTP", zap.String("address", c.Address()))
	return nil
}

// stop answers what is under way. A second call does nothing.
func (c *callers) stop() {
	if c.Server != nil {
		c.Stop()
		c.Server = nil
	}
}
