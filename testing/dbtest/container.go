package dbtest

import "github.com/idworker/idworker/testing/tier"

// Containers starts servers in containers. It is nil unless a TestMain sets it
// to docker.Start of package testing/dbtest/docker.
var Containers StartContainer

// StartContainer starts a server in a container, with additional arguments, and
// returns where it listens.
type StartContainer func(image Image, args []string) (p Process, host, port string, err error)

// Process is a server that was started.
type Process interface {
	Pause() error
	Resume() error
	Kill() error  // returns when it is gone
	Start() error // after Kill, on the same port
	Remove()
}

// Image is a container image of a server.
type Image struct {
	Name string
	Port string // as in 3306/tcp
	Env  map[string]string
	Cmd  []string
	user string // the administrator
}

// inContainer is a server in a container, which is ready when Start returns.
type inContainer struct {
	Process
	kind *kind
	at   endpoint
}

func launchContainer(k *kind, args []string) (Process, endpoint, string, error) {
	if Containers == nil || !tier.IsAll() {
		return nil, endpoint{}, "", nil
	}
	p, host, port, err := Containers(k.image, args)
	if err != nil {
		return nil, endpoint{}, "", err
	}
	c := &inContainer{p, k, endpoint{host: host, port: port, user: k.image.user, password: password}}
	if err := c.await(); err != nil {
		p.Remove()
		return nil, endpoint{}, "", err
	}
	return c, c.at, "container " + k.image.Name, nil
}

// Start is part of [Process].
func (c *inContainer) Start() error {
	if err := c.Process.Start(); err != nil {
		return err
	}
	return c.await()
}

func (c *inContainer) await() error {
	return c.kind.waitReady(c.at, func() bool { return true })
}
