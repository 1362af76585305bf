package recovery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
)

// Site is where the data of an installation is: on a NATS server, or in the data
// folder of a stopped embedded server.
type Site struct {
	js     jetstream.JetStream
	prefix messages.Prefix
	source backend.Backend
	now    func() time.Time // of this machine; tests set it
	moves  bool             // to the source, from another store

	folder  *embedded.NATS // nil on a NATS server
	conn    *nats.Conn     // to the folder
	created bool           // the folder, which was missing
	decided bool           // a raise has ended
}

// On returns the site of an installation on a NATS server.
func On(js jetstream.JetStream, prefix messages.Prefix, source backend.Backend) *Site {
	return &Site{js: js, prefix: prefix, source: source, now: time.Now}
}

// OpenFolder opens the data folder of a stopped embedded server, and creates a
// missing one if create is set. Close it. Errors: those of the embedded server;
// messages.ErrPrefix if the folder has registers of other prefixes only.
func OpenFolder(ctx context.Context, at embedded.Config, create bool, prefix messages.Prefix, source backend.Backend) (_ *Site, err error) {
	_, missing := os.Stat(at.Folder)
	at.Recover, at.Create, at.Prefix, at.Beside = true, create, prefix, backend.Beside(prefix)
	i := &Site{prefix: prefix, source: source, now: time.Now}
	if i.folder, err = embedded.Start(ctx, at); err != nil {
		return nil, err
	}
	i.created = errors.Is(missing, fs.ErrNotExist)
	if i.conn, i.js, err = i.folder.Connect(); err == nil {
		err = i.checkPrefix(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// Close stops the server of a folder. A folder that was created, and in which
// nothing was decided, is deleted: a restore makes it whole, or not at all.
func (i *Site) Close() error {
	if i.conn != nil {
		i.conn.Close()
	}
	if i.folder != nil {
		i.folder.Stop()
	}
	if i.created && !i.decided {
		return os.RemoveAll(i.folder.Folder())
	}
	return nil
}

// Prefix returns the installation's prefix.
func (i *Site) Prefix() messages.Prefix { return i.prefix }

// Folder returns the path of the folder, or "" on a NATS server.
func (i *Site) Folder() string {
	if i.folder == nil {
		return ""
	}
	return i.folder.Folder()
}

// alone reports whether no other process is connected, so that no permit is
// valid, and nobody can be asked.
func (i *Site) alone() bool { return i.folder != nil }

// checkPrefix rejects a folder that has registers of other prefixes only.
func (i *Site) checkPrefix(ctx context.Context) error {
	var others []string
	names := i.js.StreamNames(ctx)
	for name := range names.Name() {
		bucket, isBucket := strings.CutPrefix(name, kv.StreamName(""))
		other, isRegister := strings.CutSuffix(bucket, register.BucketName(""))
		switch {
		case bucket == register.BucketName(i.prefix) && isBucket:
			return nil
		case isBucket && isRegister:
			others = append(others, other)
		}
	}
	if err := names.Err(); err != nil || len(others) == 0 {
		return err
	}
	return fmt.Errorf("%w: the folder has no register of %s, only of %s", messages.ErrPrefix, i.prefix, strings.Join(others, ", "))
}
