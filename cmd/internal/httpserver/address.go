package httpserver

import (
	"fmt"
	"net"
	"strconv"

	"github.com/idworker/idworker/cmd/internal/explain"
)

// SplitAddress parses the value of a flag that says where to listen.
func SplitAddress(flag, hostPort string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(hostPort)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 || port > 65535 {
		return "", 0, explain.Usage(fmt.Errorf("%s %q: want HOST:PORT with a port from 1 to 65535", flag, hostPort))
	}
	return host, port, nil
}
