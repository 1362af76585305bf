package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// ErrPort is wrapped by [PortError].
var ErrPort = errors.New("the port is taken")

// PortError says that something listens where the server was to listen.
type PortError struct {
	Address string // HOST:PORT

	// NATS says that it is a NATS server, and Server how that calls itself: [ServerName] if it is
	// an embedded one.
	NATS   bool
	Server string

	Err error
}

func (e *PortError) Error() string { return fmt.Sprintf("%v: %v", ErrPort, e.Err) }

// Unwrap makes it an [ErrPort].
func (e *PortError) Unwrap() []error { return []error{ErrPort, e.Err} }

// checkPort finds out whether the server can listen there, before anything is made in its folder. If not,
// the error is a [PortError] or what else keeps it from listening.
func checkPort(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return lookAtPort(ctx, address, err)
	}
	if err != nil {
		return err
	}
	return listener.Close()
}

// portPatience is how long whoever listens may take to say what it is. A NATS server does so at once.
const portPatience = time.Second

// lookAtPort finds out who listens.
func lookAtPort(ctx context.Context, address string, taken error) *PortError {
	e := &PortError{Address: address, Err: taken}
	conn, err := (&net.Dialer{Timeout: portPatience}).DialContext(ctx, "tcp", address)
	if err != nil {
		return e
	}
	defer func() { _ = conn.Close() }() // nothing was written to it
	_ = conn.SetReadDeadline(time.Now().Add(portPatience))
	line, _ := bufio.NewReaderSize(conn, 16<<10).ReadSlice('\n') // without it, this is nobody that is known
	said, isNATS := strings.CutPrefix(string(line), "INFO ")
	var info struct {
		Name string `json:"server_name"`
	}
	e.NATS = isNATS && json.Unmarshal([]byte(said), &info) == nil
	e.Server = info.Name
	return e
}
