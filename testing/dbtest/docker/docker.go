// Package docker starts database servers in containers, for make test-all on a
// machine with a Docker engine and without the servers themselves. A test
// process that may do so sets dbtest.Containers to [Start] in its TestMain; no
// other links testcontainers.
package docker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/freeport"
)

// startWithin bounds pulling and starting.
const startWithin = 5 * time.Minute

// server is a server in a container.
type server struct {
	container *testcontainers.DockerContainer
	docker    *testcontainers.DockerProvider
}

// Start starts a server in a container, on a port that stays the same when it
// is started again. It is a [dbtest.StartContainer].
func Start(image dbtest.Image, args []string) (_ dbtest.Process, host, port string, err error) {
	defer func() {
		if r := recover(); r != nil { // so testcontainers reports that it finds no Docker
			err = fmt.Errorf("docker: %v", r)
		}
	}()
	docker, err := testcontainers.NewDockerProvider()
	if err != nil {
		return nil, "", "", fmt.Errorf("docker: %w", err)
	}
	s := &server{docker: docker}
	if host, port, err = s.run(image, args); err != nil {
		s.Remove()
		return nil, "", "", fmt.Errorf("docker: %w", err)
	}
	return s, host, port, nil
}

func (s *server) run(image dbtest.Image, args []string) (host, port string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := s.docker.Health(ctx); err != nil {
		return "", "", err
	}
	ctx, cancel = context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	if host, err = s.docker.DaemonHost(ctx); err != nil {
		return "", "", err
	}
	free, err := freeport.Take()
	if err != nil {
		return "", "", err
	}
	port = strconv.Itoa(free)
	exposed, err := network.ParsePort(image.Port)
	if err != nil {
		return "", "", err
	}
	s.container, err = testcontainers.Run(ctx, image.Name,
		testcontainers.WithExposedPorts(image.Port),
		testcontainers.WithEnv(image.Env),
		testcontainers.WithCmd(slices.Concat(image.Cmd, args)...),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.PortBindings = network.PortMap{exposed: {{HostIP: netip.IPv4Unspecified(), HostPort: port}}}
		}),
		testcontainers.WithWaitStrategyAndDeadline(startWithin, wait.ForListeningPort(image.Port)),
	)
	return host, port, err
}

// Pause is part of [dbtest.Process], as are the methods below.
func (s *server) Pause() error {
	_, err := s.docker.Client().ContainerPause(context.Background(), s.container.GetContainerID(), client.ContainerPauseOptions{})
	return err
}

func (s *server) Resume() error {
	_, err := s.docker.Client().ContainerUnpause(context.Background(), s.container.GetContainerID(), client.ContainerUnpauseOptions{})
	return err
}

func (s *server) Kill() error {
	_, err := s.docker.Client().ContainerKill(context.Background(), s.container.GetContainerID(), client.ContainerKillOptions{})
	for deadline := time.Now().Add(startWithin); err == nil && s.container.IsRunning(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the container still runs")
		}
	}
	return err
}

func (s *server) Start() error { return s.container.Start(context.Background()) }

func (s *server) Remove() {
	if s.container != nil {
		_ = testcontainers.TerminateContainer(s.container)
	}
	_ = s.docker.Close()
}
