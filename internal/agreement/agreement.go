// Package agreement is the bucket <prefix>_config: what all processes of an installation
// have to agree on, such as the layout of snowflake IDs and the store that counts.
//
// Whoever comes first writes its opinion down, by compare-and-set, and it stays: of several
// processes that start at once one wins, and all of them read what the winner wrote. Nothing
// here changes or removes what is written; that is an operator's decision.
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

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages"
)

// BucketName is the name of the bucket.
func BucketName(p messages.Prefix) string { return string(p) + "_config" }

// Bucket is the bucket, with replicas copies, 1 to 5, odd. The evidence that it has been there
// is what those know who use it.
func Bucket(prefix messages.Prefix, replicas int, older ...kv.Evidence) kv.Resource {
	return kv.LastingBucket(jetstream.KeyValueConfig{
		Bucket: BucketName(prefix), Description: "idworker: settings that all processes share", Replicas: replicas,
	}, older...)
}

// HasKey is the evidence that a key was agreed on, for a bucket that has to be there
// before.
func HasKey(prefix messages.Prefix, key string) kv.Evidence {
	return func(ctx context.Context, js jetstream.JetStream, missing bool) (string, error) {
		if !missing {
			return "", nil
		}
		if _, found, err := Lookup(ctx, js, prefix, key); err != nil || found {
			return fmt.Sprintf("bucket %s has the key %s", BucketName(prefix), key), err
		}
		return "", nil
	}
}

// Lookup is [Agreement.Find] where there may be no bucket yet.
func Lookup(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, key string) (value string, found bool, err error) {
	e, err := kv.Get(ctx, js, BucketName(prefix), key)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return "", false, nil
	}
	return string(e.Value), e.Exists(), err
}

// Agreement is the open bucket.
type Agreement struct{ bucket *kv.Bucket }

// Open opens the bucket, which has to exist and to be safe, see [kv.Open].
func Open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (*Agreement, error) {
	bucket, err := kv.Open(ctx, js, BucketName(prefix))
	if err != nil {
		return nil, err
	}
	return &Agreement{bucket}, nil
}

// info describes the stream beneath the bucket, as of [Open].
func (a *Agreement) info() *jetstream.StreamInfo { return a.bucket.Stream().CachedInfo() }

// ServerTime is the time at which the server answered when the bucket was opened.
func (a *Agreement) ServerTime() time.Time { return a.info().TimeStamp }

// Replicas is how many copies the bucket has.
func (a *Agreement) Replicas() int { return a.info().Config.Replicas }

// Find returns what was agreed on for a key, if anything was.
func (a *Agreement) Find(ctx context.Context, key string) (value string, found bool, err error) {
	e, err := a.bucket.Get(ctx, key)
	return string(e.Value), e.Exists(), err
}

// Agree returns what was agreed on for a key. If that is nothing yet, own is written down
// and returned; of several callers who do so at once, one wins, and all get what it wrote.
// After an error the outcome is unknown, and asking again finds out.
func (a *Agreement) Agree(ctx context.Context, key, own string) (agreed string, err error) {
	_, err = a.bucket.Edit(ctx, key, func(e kv.Entry) ([]byte, error) {
		if e.Exists() {
			agreed = string(e.Value)
			return nil, nil
		}
		agreed = own
		return []byte(own), nil
	})
	if err != nil {
		return "", err
	}
	return agreed, nil
}

// keyError adds the bucket and the key to err.
func (a *Agreement) keyError(key string, err error) error {
	return fmt.Errorf("bucket %s, key %s: %w", a.bucket.Name(), key, err)
}

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
		value, err = a.Agree(ctx, InstallationKey, nuid.Next()+" "+a.info().Created.UTC().Format(time.RFC3339Nano))
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
	reply, err := js.Conn().RequestWithContext(ctx, streamread.APISubject(js, readSubject(p, InstallationKey)), nil)
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

// StoreKey is the key under which the bucket names the store.
const StoreKey = "store"

// ErrForeignStore is wrapped by every [ForeignStoreError].
var ErrForeignStore = problem.New(problem.Invalid, "the installation uses another store")

// ForeignStoreError says which store the installation counts in, and which one a process
// was given.
type ForeignStoreError struct {
	Bucket           string // where that is written down, under [StoreKey]
	Installed, Given string
}

func (e *ForeignStoreError) Error() string {
	return fmt.Sprintf("%v: %q, and this process was given %q", ErrForeignStore, e.Installed, e.Given)
}

// Unwrap makes it an [ErrForeignStore].
func (e *ForeignStoreError) Unwrap() error { return ErrForeignStore }

// Problem is part of [problem.Problem].
func (e *ForeignStoreError) Problem() (problem.Kind, []any) { return problem.ForeignStore, nil }

// ClaimStore makes sure that all of an installation counts in one store. The first loader
// writes down which; a process with another one would hand out the same numbers again, only
// because somebody forgot a setting. The name has no host in it, because one database has
// many. The error is a [*ForeignStoreError], or JetStream is away.
func (a *Agreement) ClaimStore(ctx context.Context, name string) error {
	installed, err := a.Agree(ctx, StoreKey, name)
	if err != nil {
		return err
	}
	return a.sameStore(installed, name)
}

// CheckStore is ClaimStore for those who only look: where no loader has been yet, any store
// is right.
func (a *Agreement) CheckStore(ctx context.Context, name string) error {
	installed, found, err := a.Find(ctx, StoreKey)
	if err != nil || !found {
		return err
	}
	return a.sameStore(installed, name)
}

func (a *Agreement) sameStore(installed, given string) error {
	if installed == given {
		return nil
	}
	return &ForeignStoreError{Bucket: a.bucket.Name(), Installed: installed, Given: given}
}

// SwitchStore has the installation count in another store from now on. The counters have to
// be there already, and no loader may run: one that does goes on with the old store. The
// condition of the write is that nobody else has changed the entry meanwhile.
func (a *Agreement) SwitchStore(ctx context.Context, name string) error {
	e, err := a.bucket.Get(ctx, StoreKey)
	if err != nil || e.Exists() && string(e.Value) == name {
		return err
	}
	_, err = a.bucket.Update(ctx, StoreKey, []byte(name), e.Revision)
	return err
}

// Rights are those that a role needs for what is agreed on. Workers write the keys of the
// packages that use the bucket, which state them.
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	bucket := BucketName(p)
	switch role {
	case rights.Worker:
		return rights.Join(rights.ReadBucket(bucket), rights.WriteBucket(bucket, InstallationKey))
	case rights.Loader:
		return rights.Join(rights.ReadBucket(bucket), rights.WriteBucket(bucket, StoreKey, InstallationKey))
	case rights.Enricher:
		return rights.Publish(rights.API(readSubject(p, InstallationKey)))
	case rights.Admin:
		return rights.Join(rights.ProvisionBucket(bucket), rights.ReadBucket(bucket), rights.WriteBucket(bucket, ">"))
	}
	return rights.Rights{}
}
