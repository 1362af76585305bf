package agreement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/messages"
)

// InstallationKey is the key under which the bucket says which installation it belongs to,
// and since when that exists: the ID, a space, and a time as in RFC 3339.
const InstallationKey = "installation"

// ErrInstallation says that the bucket's entry about the installation cannot be read.
var ErrInstallation = errors.New("the installation has no readable ID")

// Installation returns the random ID of the installation, and since when the installation
// exists. The first process to ask makes the ID, once; an installation that is older than
// IDs gets one in the same way. Its age is that of the bucket, not that of the ID, so that
// an installation that existed before does not pass for a new one.
func (a *Agreement) Installation(ctx context.Context) (id string, created time.Time, err error) {
	value, found, err := a.Find(ctx, InstallationKey)
	if err == nil && !found {
		value, err = a.Agree(ctx, InstallationKey, nuid.Next()+" "+a.age().UTC().Format(time.RFC3339Nano))
	}
	if err != nil {
		return "", time.Time{}, err
	}
	if id, created, err = parseInstallation(value); err != nil {
		return "", time.Time{}, a.keyError(InstallationKey, err)
	}
	return id, created, nil
}

func parseInstallation(value string) (id string, created time.Time, err error) {
	id, text, _ := strings.Cut(value, " ")
	created, err = time.Parse(time.RFC3339Nano, text)
	if err != nil || messages.CheckTag(id) != nil || strings.Contains(id, ".") {
		return "", time.Time{}, fmt.Errorf("%w: %.100q", ErrInstallation, value)
	}
	return id, created, nil
}

// readSubject is the subject of the request that reads a key and nothing else. It can be a
// service that an account exports to others, who may not open the bucket.
func readSubject(p messages.Prefix, key string) string {
	return "DIRECT.GET.KV_" + BucketName(p) + ".$KV." + BucketName(p) + "." + key
}

// PeekInstallation returns the ID of the installation, for those who take no part in it. It
// is empty if there is no bucket within reach, or no ID in it yet.
func PeekInstallation(ctx context.Context, js jetstream.JetStream, p messages.Prefix) (id string, err error) {
	reply, err := js.Conn().RequestWithContext(ctx, leader.APISubject(js, readSubject(p, InstallationKey)), nil)
	if errors.Is(err, nats.ErrNoResponders) || err == nil && len(reply.Data) == 0 {
		return "", nil
	}
	if err == nil {
		id, _, err = parseInstallation(string(reply.Data))
	}
	if err != nil {
		return "", fmt.Errorf("bucket %s, key %s: %w", BucketName(p), InstallationKey, err)
	}
	return id, nil
}

// age is when the bucket was made, according to its server.
func (a *Agreement) age() time.Time { return a.stream.CachedInfo().Created }
