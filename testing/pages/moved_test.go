package pages

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// localPorts are all ports that the commands of make run, make nats and make
// cluster use.
var localPorts = []int{4222, 4223, 4224, 6222, 6223, 6224, 8080, 9090}

// moved is a page as a reader types it who finds a port taken: with the command
// that moves all ports. Other pages have no such command.
func moved(p Document) (Document, bool) {
	at := slices.IndexFunc(p.Blocks, func(b Block) bool {
		return slices.ContainsFunc(b.Lines, func(line string) bool { return strings.HasPrefix(line, "$ export PORT_OFFSET=") })
	})
	if at < 0 {
		return p, false
	}
	p.Blocks = slices.Clone(p.Blocks)
	p.Blocks[at].NotRun = ""
	return p, true
}

// occupy listens on those ports that nobody has taken, and answers nobody.
func occupy(t *testing.T) {
	t.Helper()
	for _, port := range localPorts {
		if l, err := net.Listen("tcp", localAddress(port)); err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
	}
}

func localAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
