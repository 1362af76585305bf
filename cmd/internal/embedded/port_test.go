package embedded

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/idworker/idworker/testing/natstest"
)

// The listener on a port is identified, and neither a folder nor its witness is
// created.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	go func() {
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			// The test below checks whether it arrives.
			_, _ = fmt.Fprintln(conn, "220 mail.example.org")
			_ = conn.Close()
		}
	}()
	stranger := natstest.Start(t)
	own, err := Start(t.Context(), Config{Host: "127.0.0.1", Port: -1, Folder: t.TempDir(), Witness: filepath.Join(t.TempDir(), "witness"), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()

	for what, test := range map[string]struct {
		address string
		nats    bool
		name    string // empty: any
	}{
		"a silent listener": {silent.Addr().String(), false, ""},
		"another protocol":  {other.Addr().String(), false, ""},
		"a NATS server":     {strings.TrimPrefix(stranger.URL(), "nats://"), true, ""},
		"one of ours":       {own.nats.Addr().String(), true, ServerName},
	} {
		folder := filepath.Join(t.TempDir(), "data")
		address, err := net.ResolveTCPAddr("tcp", test.address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Start(t.Context(), Config{Host: "127.0.0.1", Port: address.Port, Folder: folder, Log: zap.NewNop()})
		var port *PortError
		if !errors.As(err, &port) || port.NATS != test.nats || (port.Server == ServerName) != (test.name == ServerName) {
			t.Errorf("%s: %v, %+v", what, err, port)
		}
		for _, path := range []string{folder, WitnessOf(folder)} {
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("%s: %s was made", what, path)
			}
		}
	}
}
