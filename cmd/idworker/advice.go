package main

import (
	"errors"
	"fmt"

	"github.com/idworker/idworker/internal/embedded"
	"github.com/idworker/idworker/internal/natsconn"
)

// advise adds to an error what the user can do about it, as far as that is something on
// the command line: packages below do not know commands and flags.
func advise(err error) error {
	var denied *natsconn.DeniedError
	switch {
	case errors.Is(err, embedded.ErrInUse):
		return fmt.Errorf("%w; stop that process, connect to it with --server, or choose another --data", err)
	case errors.Is(err, embedded.ErrDamaged):
		return fmt.Errorf("%w. Restore a backup, or start over in another --data folder, with tags whose --first is above all IDs in use", err)
	case !errors.As(err, &denied):
		return err
	case denied.Missing != nil:
		return fmt.Errorf("%w; have an administrator run: idworker provision", err)
	case denied.Inbox():
		return fmt.Errorf("%w; set --inbox-prefix to the one of this user", err)
	}
	return fmt.Errorf("%w; nats.conf shows which rights each role needs", err)
}
