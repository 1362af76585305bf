// Package docker starts database servers in containers, for make test-all on a
// machine with a Docker engine and without the servers themselves. A test
// process that may do so sets dbtest.Containers to [Start] in its TestMain; no
// other links testcontainers.
package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/idworker/idworker/testing/dbtest"
)

// startWithin bounds pulling and starting.
const startWithin = 5 * time.Minute

// Start starts a server in a container, which testcontainers removes when the
// process has ended. It is for dbtest.Containers.
func Start(image dbtest.Image) (host, port string, err error) {
	defer func() {
		if r := recover(); r != nil { // so testcontainers reports that it finds no Docker
			err = fmt.Errorf("docker: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	c, err := testcontainers.Run(ctx, image.Name,
		testcontainers.WithExposedPorts(image.Port),
		testcontainers.WithEnv(image.Env),
		testcontainers.WithCmd(image.Cmd...),
		testcontainers.WithWaitStrategyAndDeadline(startWithin, wait.ForListeningPort(image.Port)),
	)
	if err != nil {
		return "", "", fmt.Errorf("docker: %w", err)
	}
	if host, err = c.Host(ctx); err != nil {
		return "", "", fmt.Errorf("docker: %w", err)
	}
	mapped, err := c.MappedPort(ctx, image.Port)
	if err != nil {
		return "", "", fmt.Errorf("docker: %w", err)
	}
	return host, mapped.Port(), nil
}
