// Package agreement stores settings that all processes of an installation
// share, in the bucket <prefix>_config: the layout of snowflake IDs, the store,
// and others.
//
// The first process writes a value by compare-and-set, and it stays. Of several
// processes that start together, one wins, and all read its value. Only an
// operator changes or removes values.
package agreement

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

// Bucket is the bucket of an installation that exists or is restored, with
// replicas copies, 1 to 5, odd.
func Bucket(prefix messages.Prefix, replicas int) kv.Resource {
	return kv.LastingBucket(bucket(prefix, replicas))
}

// NewBucket is the bucket whose creation begins an installation, see
// [kv.Lasting]. Packages that use it pass the evidence that it existed before.
func NewBucket(prefix messages.Prefix, replicas int, older ...kv.Trace) kv.Resource {
	b := bucket(prefix, replicas)
	b.Birth, b.Older = true, older
	return kv.LastingBucket(b)
}

func bucket(prefix messages.Prefix, replicas int) kv.Lasting {
	return kv.Lasting{Bucket: BucketName(prefix), Description: "idworker: settings that all processes share", Replicas: replicas}
}

// HasKey is the evidence that a key was agreed on, for a bucket that must have
// existed before.
func HasKey(prefix messages.Prefix, key string) kv.Trace {
	return func(ctx context.Context, js jetstream.JetStream) (string, error) {
		if _, found, err := Lookup(ctx, js, prefix, key); err != nil || found {
			return fmt.Sprintf("bucket %s has the key %s", BucketName(prefix), key), err
		}
		return "", nil
	}
}

// Lookup is [Agreement.Find] for a bucket that may not exist yet.
func Lookup(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, key string) (value string, found bool, err error) {
	e, err := kv.Get(ctx, js, BucketName(prefix), key)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return "", false, nil
	}
	return string(e.Value), e.Exists(), err
}

// Agreement is the open bucket.
type Agreement struct {
	js     jetstream.JetStream
	bucket *kv.Bucket
}

// Open opens the bucket, which must exist and be safe, see [kv.Open].
func Open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (*Agreement, error) {
	bucket, err := kv.Open(ctx, js, BucketName(prefix))
	if err != nil {
		return nil, err
	}
	return &Agreement{js, bucket}, nil
}

// info describes the stream beneath the bucket, as of [Open].
func (a *Agreement) info() *jetstream.StreamInfo { return a.bucket.Stream().CachedInfo() }

// ServerTime is the server's time when the bucket was opened.
func (a *Agreement) ServerTime() time.Time { return a.info().TimeStamp }

// MadeAfter reports whether the bucket was made after a time of the server.
func (a *Agreement) MadeAfter(t time.Time) bool { return a.info().Created.After(t) }

// Replicas is the number of copies of the bucket.
func (a *Agreement) Replicas() int { return a.info().Config.Replicas }

// Find returns the value of a key, if present.
func (a *Agreement) Find(ctx context.Context, key string) (value string, found bool, err error) {
	e, err := a.bucket.Get(ctx, key)
	return string(e.Value), e.Exists(), err
}

// Agree returns the value of a key, after setting it to own if it has none. Of
// several concurrent callers one wins, and all get its value. After an error
// the outcome is unknown; a retry returns it.
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

// Edit sets the value of a key to the result of change, which may be called
// again if another process was faster. If change returns the present value or
// an error, nothing is written. After any other error the outcome is unknown; a
// retry finds out.
func (a *Agreement) Edit(ctx context.Context, key string, change func(have string, found bool) (string, error)) error {
	_, err := a.bucket.Edit(ctx, key, func(e kv.Entry) ([]byte, error) {
		value, err := change(string(e.Value), e.Exists())
		if err != nil || e.Exists() && value == string(e.Value) {
			return nil, err
		}
		return []byte(value), nil
	})
	return err
}

// keyError adds the bucket and the key to err.
func (a *Agreement) keyError(key string, err error) error {
	return fmt.Errorf("bucket %s, key %s: %w", a.bucket.Name(), key, err)
}

// InstallationKey is the key of the installation's identity: its ID, a space,
// and the time of its creation as in RFC 3339.
const InstallationKey = "installation"

// LookupID returns the ID of the installation, "" if there is none. It does not
// check the ID.
func LookupID(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (id string, err error) {
	value, _, err := Lookup(ctx, js, prefix, InstallationKey)
	id, _, _ = strings.Cut(value, " ")
	return id, err
}

// ErrInstallation means that the installation's identity cannot be read.
var ErrInstallation = errors.New("the installation has no readable ID")

// Installation returns the random ID of the installation, and its creation
// time. The first call creates both. The creation time is the bucket's, so that
// an installation whose ID was lost does not pass for new. If the bucket was
// emptied, the ID deleted, or there is a trace of an older installation, none is
// created: the error is a [*kv.OlderError].
func (a *Agreement) Installation(ctx context.Context, older ...kv.Trace) (id string, created time.Time, err error) {
	id, created, _, err = a.Join(ctx, older...)
	return id, created, err
}

// Join is [Agreement.Installation], and reports whether this call has created the
// ID.
func (a *Agreement) Join(ctx context.Context, older ...kv.Trace) (id string, created time.Time, made bool, err error) {
	value, found, err := a.Find(ctx, InstallationKey)
	if err == nil && !found {
		value, found, err = a.findLost(ctx, older)
	}
	if err == nil && !found {
		own := nuid.Next() + " " + a.info().Created.UTC().Format(time.RFC3339Nano)
		value, err = a.Agree(ctx, InstallationKey, own)
		made = value == own
	}
	if err != nil {
		return "", time.Time{}, false, err
	}
	if id, created, err = parseInstallation(value); err != nil {
		return "", time.Time{}, false, a.keyError(InstallationKey, err)
	}
	return id, created, made, nil
}

// findLost looks for traces of an ID that is missing. If there is one, it looks for
// the ID again, because another process may have created it before it left them. A
// decision that was announced is about what was lost, so traces count no more.
func (a *Agreement) findLost(ctx context.Context, older []kv.Trace) (value string, found bool, err error) {
	what := ""
	for _, trace := range older {
		if what == "" && err == nil {
			what, err = trace(ctx, a.js)
		}
	}
	e, failed := a.bucket.Get(ctx, InstallationKey)
	if err = errors.Join(err, failed); err != nil || e.Exists() {
		return string(e.Value), e.Exists(), err
	}
	if _, decided, err := a.Find(ctx, DecidedKey); err != nil || decided && e.Revision == 0 {
		return "", false, err
	}
	if was := a.info().State; e.Revision > 0 || was.Msgs == 0 && was.LastSeq > 0 {
		what = fmt.Sprintf("it was written before (writes: %d)", was.LastSeq)
	}
	if what != "" {
		return "", false, &kv.OlderError{Bucket: a.bucket.Name(), Key: InstallationKey, What: what}
	}
	return "", false, nil
}

// ReplaceInstallation replaces the identity of an installation with that ID by
// another identity, a value of [InstallationKey]. It is no error if that is
// there already.
func (a *Agreement) ReplaceInstallation(ctx context.Context, id, by string) error {
	_, err := a.bucket.Edit(ctx, InstallationKey, func(e kv.Entry) ([]byte, error) {
		here, _, _ := strings.Cut(string(e.Value), " ")
		switch {
		case e.Exists() && string(e.Value) == by:
			return nil, nil
		case e.Exists() && here != id:
			return nil, a.keyError(InstallationKey, fmt.Errorf("%w: %.100q, expected %s", ErrInstallation, e.Value, id))
		}
		return []byte(by), nil
	})
	return err
}

func parseInstallation(value string) (id string, created time.Time, err error) {
	id, text, _ := strings.Cut(value, " ")
	created, err = time.Parse(time.RFC3339Nano, text)
	if err != nil || CheckID(id) != nil {
		return "", time.Time{}, fmt.Errorf("%w: %.100q", ErrInstallation, value)
	}
	return id, created, nil
}

// readSubject is the subject of the request that reads a single key. An account
// can export it as a service to accounts that may not open the bucket.
func readSubject(p messages.Prefix, key string) string {
	return "DIRECT.GET.KV_" + BucketName(p) + ".$KV." + BucketName(p) + "." + key
}

// PeekInstallation returns the ID of the installation, for processes outside
// it. It is empty if the bucket is out of reach, or has no ID yet.
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

// FloorKey is the key of the highest lowest first ID that an administrator
// decided on, in decimal. It never falls. A register that was restored to a
// lower one is no longer above all grants.
const FloorKey = "floor"

// Floor returns the value of [FloorKey], 1 if there is none. A bucket that does
// not exist has none.
func Floor(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (int64, error) {
	value, found, err := Lookup(ctx, js, prefix, FloorKey)
	if err != nil || !found {
		return 1, err
	}
	floor, err := parseFloor(value)
	if err != nil {
		return 0, fmt.Errorf("bucket %s, key %s: %w", BucketName(prefix), FloorKey, err)
	}
	return floor, nil
}

func parseFloor(value string) (int64, error) {
	floor, err := strconv.ParseInt(value, 10, 64)
	if err != nil || floor < 1 {
		return 0, fmt.Errorf("%.40q is no first ID; allowed is 1 to 2^63-1", value)
	}
	return floor, nil
}

// RaiseFloor lifts the value of [FloorKey] to a floor, unless it is higher. It
// does not replace an unreadable value.
func (a *Agreement) RaiseFloor(ctx context.Context, floor int64) error {
	_, err := a.bucket.Edit(ctx, FloorKey, func(e kv.Entry) ([]byte, error) {
		if e.Exists() {
			have, err := parseFloor(string(e.Value))
			if err != nil {
				return nil, a.keyError(FloorKey, err)
			}
			if have >= floor {
				return nil, nil
			}
		}
		return strconv.AppendInt(nil, floor, 10), nil
	})
	return err
}

// DecidedKey is the key of the latest decision that was announced to workers:
// its lowest first ID in decimal, a space, and the ID of the installation that
// it is about, if there was one. Unlike [FloorKey] it is written after the decision, so that a
// worker which finds it may drop what was granted before. Version 0.2.0 neither
// reads nor writes it.
const DecidedKey = "decided"

// Announcement is the value of [DecidedKey]. The zero value stands for none.
type Announcement struct {
	Floor        int64  // the lowest first ID of new tags
	Installation string // empty if there was none: then it is about all processes
}

// ErrDecision means that the value of [DecidedKey] cannot be read.
var ErrDecision = errors.New("not a decision")

// Decided returns the value of [DecidedKey]. A bucket that does not exist has
// none.
func Decided(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (Announcement, error) {
	value, found, err := Lookup(ctx, js, prefix, DecidedKey)
	if err != nil || !found {
		return Announcement{}, err
	}
	d, err := parseAnnouncement(value)
	if err != nil {
		return d, fmt.Errorf("bucket %s, key %s: %w", BucketName(prefix), DecidedKey, err)
	}
	return d, nil
}

// parseAnnouncement ignores what a later version may add.
func parseAnnouncement(value string) (d Announcement, err error) {
	fields := append(strings.Fields(value), "", "")
	if d.Floor, err = parseFloor(fields[0]); err == nil && fields[1] != "" {
		d.Installation, err = fields[1], CheckID(fields[1])
	}
	if err != nil {
		return Announcement{}, fmt.Errorf("%w: %w", ErrDecision, err)
	}
	return d, nil
}

// Announce writes [DecidedKey], unless it has a higher floor of the same
// installation. An unreadable value is replaced, because workers ignore it.
func (a *Agreement) Announce(ctx context.Context, d Announcement) error {
	_, err := a.bucket.Edit(ctx, DecidedKey, func(e kv.Entry) ([]byte, error) {
		have, err := parseAnnouncement(string(e.Value))
		if e.Exists() && err == nil && have.Installation == d.Installation && have.Floor >= d.Floor {
			return nil, nil
		}
		return []byte(strings.TrimSpace(fmt.Sprintf("%d %s", d.Floor, d.Installation))), nil
	})
	return err
}

// ProofKey is the key of the proof that a loader has left which has seen the
// register go back, see package register. It is about one register under one
// decision, so backups do not have it.
const ProofKey = "regressed"

// StoreKey is the key of the store's name.
const StoreKey = "store"

// ErrForeignStore is wrapped by every [ForeignStoreError].
var ErrForeignStore = problem.New(problem.Invalid, "the installation uses another store")

// ForeignStoreError means that a process was given another store than the
// installation uses.
type ForeignStoreError struct {
	Bucket           string // its key [StoreKey] has the installed store
	Installed, Given string
}

func (e *ForeignStoreError) Error() string {
	return fmt.Sprintf("%v: %q, and this process was given %q", ErrForeignStore, e.Installed, e.Given)
}

// Unwrap makes it an [ErrForeignStore].
func (e *ForeignStoreError) Unwrap() error { return ErrForeignStore }

// Problem is part of [problem.Problem].
func (e *ForeignStoreError) Problem() (problem.Kind, []any) { return problem.ForeignStore, nil }

// ClaimStore makes sure that all loaders of an installation use the same store.
// The first loader writes its name. A process with another store, as after a
// wrong setting, would issue the same IDs again. The name contains no host,
// because a database can have many. Errors: [*ForeignStoreError]; any other
// error means that JetStream is unreachable.
func (a *Agreement) ClaimStore(ctx context.Context, name string) error {
	installed, err := a.Agree(ctx, StoreKey, name)
	if err != nil {
		return err
	}
	return a.sameStore(installed, name)
}

// CheckStore is ClaimStore without the write: before the first loader, any
// store passes.
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

// SwitchStore makes the installation use another store. The counters must be
// there already, and no loader may run: a running loader keeps the old store.
// The write fails if the entry was changed concurrently.
func (a *Agreement) SwitchStore(ctx context.Context, name string) error {
	e, err := a.bucket.Get(ctx, StoreKey)
	if err != nil || e.Exists() && string(e.Value) == name {
		return err
	}
	_, err = a.bucket.Update(ctx, StoreKey, []byte(name), e.Revision)
	return err
}

// LeaveProofRights are the rights to write [ProofKey]. A loader works without.
func LeaveProofRights(p messages.Prefix) rights.Rights {
	return rights.WriteBucket(BucketName(p), ProofKey)
}

// Rights are the rights of a role for this bucket. The packages that use it
// state the keys that workers write.
func Rights(p messages.Prefix, role rights.Duty) rights.Rights {
	bucket := BucketName(p)
	switch role {
	case rights.Worker, rights.Snowflake:
		return rights.Join(rights.ReadBucket(bucket), rights.WriteBucket(bucket, InstallationKey))
	case rights.Loader:
		return rights.Join(rights.ReadBucket(bucket), rights.WriteBucket(bucket, StoreKey, InstallationKey), LeaveProofRights(p))
	case rights.Enricher:
		return rights.Publish(rights.API(readSubject(p, InstallationKey)))
	case rights.Monitor:
		return rights.ReadBucket(bucket)
	case rights.Backup:
		return rights.Join(rights.ReadBucket(bucket), rights.WatchBucket(bucket))
	case rights.Admin:
		return rights.Join(rights.ProvisionBucket(bucket), rights.ReadBucket(bucket), rights.WriteBucket(bucket, ">"))
	}
	return rights.Rights{}
}
