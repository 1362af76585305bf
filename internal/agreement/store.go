package agreement

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// StoreKey is the key under which the bucket names the store.
const StoreKey = "store"

// ErrForeignStore is wrapped by every [ForeignStoreError].
var ErrForeignStore = errors.New("the installation counts in another store")

// ForeignStoreError says which store the installation counts in, and which one a process
// was given.
type ForeignStoreError struct {
	Bucket           string // where that is written down, under [StoreKey]
	Installed, Given string
}

func (e *ForeignStoreError) Error() string {
	return fmt.Sprintf("%v: it is %q, and this process was given %q", ErrForeignStore, e.Installed, e.Given)
}

// Unwrap makes it an [ErrForeignStore].
func (e *ForeignStoreError) Unwrap() error { return ErrForeignStore }

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
	return &ForeignStoreError{Bucket: a.kv.Bucket(), Installed: installed, Given: given}
}

// SwitchStore has the installation count in another store from now on. The counters have to
// be there already, and no loader may run: one that does goes on with the old store. The
// condition of the write is that nobody else has changed the entry meanwhile.
func (a *Agreement) SwitchStore(ctx context.Context, name string) error {
	entry, err := a.kv.Get(ctx, StoreKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return a.ClaimStore(ctx, name)
	}
	if err != nil {
		return a.keyError(StoreKey, err)
	}
	if string(entry.Value()) == name {
		return nil
	}
	if _, err := a.kv.Update(ctx, StoreKey, []byte(name), entry.Revision()); err != nil {
		return a.keyError(StoreKey, err)
	}
	return nil
}
