package dbtest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// containerWithin is how long pulling and starting may take.
const containerWithin = 3 * time.Minute

// inContainer is a server in a container.
type inContainer struct {
	kind      *kind
	at        endpoint
	container *testcontainers.DockerContainer
	docker    *testcontainers.DockerProvider
}

// launchContainer starts a server in a container, on a port that stays the same when
// it is started again.
func launchContainer(k *kind, args []string) (_ server, _ endpoint, _ string, err error) {
	defer func() {
		if r := recover(); r != nil { // so testcontainers says that it finds no Docker
			err = fmt.Errorf("docker: %v", r)
		}
	}()
	fail := func(err error) (server, endpoint, string, error) {
		return nil, endpoint{}, "", fmt.Errorf("docker: %w", err)
	}
	docker, err := testcontainers.NewDockerProvider()
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := docker.Health(ctx); err != nil {
		_ = docker.Close()
		return fail(err)
	}

	ctx, cancel = context.WithTimeout(context.Background(), containerWithin)
	defer cancel()
	host, err := docker.DaemonHost(ctx)
	if err != nil {
		return fail(err)
	}
	port, err := freePort()
	if err != nil {
		return fail(err)
	}
	exposed, err := network.ParsePort(k.imgPort)
	if err != nil {
		return fail(err)
	}
	user := "root"
	if k == postgresKind {
		user = "postgres"
	}
	at := endpoint{host: host, port: port, user: user, password: password}
	c, err := testcontainers.Run(ctx, k.image,
		testcontainers.WithExposedPorts(k.imgPort),
		testcontainers.WithEnv(k.imgEnv),
		testcontainers.WithCmd(slices.Concat(k.imgCmd, args)...),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.PortBindings = network.PortMap{exposed: {{HostIP: netip.IPv4Unspecified(), HostPort: port}}}
		}),
		testcontainers.WithWaitStrategyAndDeadline(containerWithin, wait.ForListeningPort(k.imgPort)),
	)
	s := &inContainer{kind: k, at: at, container: c, docker: docker}
	if err == nil {
		err = k.waitReady(at, func() bool { return c.IsRunning() })
	}
	if err != nil {
		if c != nil {
			s.remove()
		}
		return fail(err)
	}
	return s, at, "container " + k.image, nil
}

func (c *inContainer) pause() error {
	_, err := c.docker.Client().ContainerPause(context.Background(), c.container.GetContainerID(), client.ContainerPauseOptions{})
	return err
}

func (c *inContainer) resume() error {
	_, err := c.docker.Client().ContainerUnpause(context.Background(), c.container.GetContainerID(), client.ContainerUnpauseOptions{})
	return err
}

func (c *inContainer) kill() error {
	_, err := c.docker.Client().ContainerKill(context.Background(), c.container.GetContainerID(), client.ContainerKillOptions{})
	if err != nil {
		return err
	}
	return eventually(readyWithin, func() error {
		state, err := c.container.State(context.Background())
		if err == nil && state.Running {
			err = fmt.Errorf("the container still runs")
		}
		return err
	})
}

func (c *inContainer) start() error {
	if err := c.container.Start(context.Background()); err != nil {
		return err
	}
	return c.kind.waitReady(c.at, func() bool { return true })
}

func (c *inContainer) remove() {
	_ = testcontainers.TerminateContainer(c.container)
	_ = c.docker.Close()
}
