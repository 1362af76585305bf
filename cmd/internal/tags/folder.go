package tags

import (
	"context"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/messages"
)

// RaiseFolder is [RaiseAll] for the data folder of an embedded server that does not run. The
// witness then takes the folder for what it is now. It returns the folder's path.
func RaiseFolder(ctx context.Context, at embedded.Config, prefix messages.Prefix, source backend.Backend, n int64, report func(Raised)) (string, error) {
	at.Recover = true
	server, err := embedded.Start(ctx, at)
	if err != nil {
		return "", err
	}
	defer server.Stop()
	conn, js, err := server.Connect()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := RaiseAll(ctx, js, prefix, source, n, report); err != nil {
		return "", err
	}
	return server.Folder(), server.Witness().Accept(ctx, js, prefix, backend.Beside(prefix)...)
}
