//go:build all

package dbtest

import (
	"context"
	"fmt"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// startWithin bounds pulling the image and starting the server.
const startWithin = 5 * time.Minute

// startContainer starts a server in a container, which testcontainers removes
// when the process has ended.
func startContainer(image image) (host, port string, err error) {
	defer func() {
		if r := recover(); r != nil { // so testcontainers reports that it finds no Docker
			err = fmt.Errorf("docker: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	c, err := testcontainers.Run(ctx, image.name,
		testcontainers.WithExposedPorts(image.port),
		testcontainers.WithEnv(image.env),
		testcontainers.WithCmd(image.cmd...),
		testcontainers.WithWaitStrategyAndDeadline(startWithin, wait.ForListeningPort(image.port)),
	)
	if err != nil {
		return "", "", fmt.Errorf("docker: %w", err)
	}
	if host, err = c.Host(ctx); err != nil {
		return "", "", fmt.Errorf("docker: %w", err)
	}
	mapped, err := c.MappedPort(ctx, image.port)
	if err != nil {
		return "", "", fmt.Errorf("docker: %w", err)
	}
	return host, mapped.Port(), nil
}
