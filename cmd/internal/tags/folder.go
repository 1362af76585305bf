package tags

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
)

// RaiseFolder is [RaiseAll] for the data folder of an embedded server that does
// not run. The witness then takes the folder for what it is now. It returns the
// folder's path.
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
	if err := checkPrefix(ctx, js, prefix); err != nil {
		return "", err
	}
	err = RaiseAll(ctx, js, prefix, source, n, report)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return "", err
	}
	return server.Folder(), errors.Join(err, server.Witness().Accept(ctx, js, prefix, backend.Beside(prefix)...))
}

// checkPrefix refuses a folder that holds registers of other prefixes only.
func checkPrefix(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	own, suffix := kv.StreamName(register.BucketName(prefix)), register.BucketName("")
	names := js.StreamNames(ctx)
	var others []string
	for name := range names.Name() {
		bucket, isBucket := strings.CutPrefix(name, kv.StreamName(""))
		other, isRegister := strings.CutSuffix(bucket, suffix)
		switch {
		case name == own:
			return nil
		case isBucket && isRegister:
			others = append(others, other)
		}
	}
	if err := names.Err(); err != nil || len(others) == 0 {
		return err
	}
	return fmt.Errorf("%w: the folder has no register of %s, but of %s", messages.ErrPrefix, prefix, strings.Join(others, ", "))
}
