package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
)

func (d *Doctor) examineSync(ctx context.Context, find func(Finding)) {
	if d.Sync == nil {
		return
	}
	err := d.ask(ctx, d.Sync)
	unknown := errors.Is(err, durability.ErrSyncUnknown) || errors.Is(err, nats.ErrPermissionViolation)
	if unknown && !errors.Is(err, durability.ErrSyncUnknown) {
		err = fmt.Errorf("%w: %w", durability.ErrSyncUnknown, err)
	}
	if d.AllowUnsynced && (unknown || errors.Is(err, durability.ErrNoSync)) {
		find(Finding{What: "sync", Good: fmt.Sprintf("%v, which is allowed", err)})
		return
	}
	find(Finding{What: "sync", Err: err, Warning: unknown, Good: "every write is on disk before it is acknowledged"})
}

// examineRights asks the server what this user may do.
func (d *Doctor) examineRights(ctx context.Context, find func(Finding)) {
	if d.Domain != "" {
		find(Finding{What: "rights", Err: errors.New("not looked at in another JetStream domain"), Warning: true})
		return
	}
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		d.allowed, err = askPermissions(ctx, d.Conn)
		return err
	})
	if err != nil {
		err = fmt.Errorf("the server does not tell what this user may (%s): %w", rights.AskPermissions, err)
		find(Finding{What: "rights", Err: err, Warning: true})
		return
	}
	need := rights.Join(d.Needs, rights.Subscribe(d.Conn.NewInbox()))
	find(Finding{What: "rights", Err: d.allowed.check(need), Good: fmt.Sprintf("the role %s has all that it needs", d.Role)})
}

// examineResources looks at the streams and buckets that the role has to do with.
func (d *Doctor) examineResources(ctx context.Context, find func(Finding)) {
	missing := make(map[string][]string) // what is said of copies → of which resources
	for _, r := range d.Resources {
		if !d.Needs.Includes(r.InfoSubject()) {
			continue
		}
		var found kv.Found
		err := d.ask(ctx, func(ctx context.Context) (err error) {
			found, err = r.Look(ctx, d.JetStream)
			return err
		})
		if found.Copies != "" {
			missing[found.Copies] = append(missing[found.Copies], r.String())
		}
		if err == nil && found.Difference != "" {
			find(Finding{What: r.String(), Err: fmt.Errorf("%w: %s", ErrDifferent, found.Difference), Warning: true})
			continue
		}
		find(Finding{What: r.String(), Err: err, Good: "as it should be"})
	}
	for _, text := range slices.Sorted(maps.Keys(missing)) {
		find(Finding{What: "copies", Err: fmt.Errorf("%w: %s: %s", ErrCopies, text, strings.Join(missing[text], ", ")), Warning: true})
	}
}

// nearlyFull is the part of an account's storage from which on it is worth a warning.
const nearlyFull = 0.8

// examineStorage looks at whether the account has storage of its own, and enough.
func (d *Doctor) examineStorage(ctx context.Context, find func(Finding)) {
	if !d.Storage {
		return
	}
	var account *jetstream.AccountInfo
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		account, err = d.JetStream.AccountInfo(ctx)
		return err
	})
	if err != nil {
		find(Finding{What: "storage", Err: err})
		return
	}
	used, limit := account.Store, account.Limits.MaxStore
	const mb = 1 << 20
	state := fmt.Sprintf("%d MB of the account's %d MB are used", used/mb, limit/mb)
	switch {
	case limit < 0:
		err = ErrShared
	case float64(used) > nearlyFull*float64(limit):
		err = fmt.Errorf("%w: %s", ErrNearlyFull, state)
	}
	find(Finding{What: "storage", Err: err, Warning: true, Good: state})
}

// examineClock compares this machine's clock with the server's, and the layout with that
// of the installation.
func (d *Doctor) examineClock(ctx context.Context, find func(Finding)) {
	if d.MaxClockSkew == 0 {
		return
	}
	var agreed *agreement.Agreement
	before := time.Now()
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		agreed, err = agreement.Open(ctx, d.JetStream, d.Prefix)
		return err
	})
	if err != nil {
		return // the bucket is a resource, and was reported
	}
	off := (time.Since(before)/2 + before.Sub(agreed.ServerTime())).Round(time.Millisecond)
	if off.Abs() > d.MaxClockSkew {
		err = fmt.Errorf("%w: %v ahead of the server's, allowed is %v", ErrClockOff, off, d.MaxClockSkew)
	}
	find(Finding{What: "clock", Err: err, Good: fmt.Sprintf("%v ahead of the server's", off)})
	if d.Layout != "" {
		d.examineLayout(ctx, find)
	}
}

func (d *Doctor) examineLayout(ctx context.Context, find func(Finding)) {
	var have string
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		have, err = lease.InstalledLayout(ctx, d.JetStream, d.Prefix)
		return err
	})
	good := have
	switch {
	case err == nil && have == "":
		good = "none yet, the first worker sets it"
	case err == nil && have != d.Layout:
		err = fmt.Errorf("%w: %.100s, and workers are given %s", ErrOtherLayout, have, d.Layout)
	}
	find(Finding{What: "layout", Err: err, Good: good})
}

// examineStore asks whether the store is the installation's, and whether it can be used.
func (d *Doctor) examineStore(ctx context.Context, find func(Finding)) {
	if d.Store == nil {
		return
	}
	err := d.ask(ctx, func(ctx context.Context) error {
		agreed, err := agreement.Open(ctx, d.JetStream, d.Prefix)
		if isMissing(err) {
			return nil // the bucket is a resource, and was reported
		}
		if err != nil {
			return err
		}
		return agreed.CheckStore(ctx, d.Store.Name)
	})
	if err == nil {
		err = d.ask(ctx, d.Store.Check)
	}
	find(Finding{What: "store", Err: err, Good: d.Store.Name + " is as it should be"})
	if err == nil && d.Store.CheckDurability != nil {
		d.examineDurability(ctx, find)
	}
	if err == nil && d.Store.CheckFirst != nil {
		d.examineTemplates(ctx, find)
	}
}

// examineTemplates asks whether loaders can make tags, if there are templates for tags that come into being
// when they are first asked for.
func (d *Doctor) examineTemplates(ctx context.Context, find func(Finding)) {
	var list templates.List
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		list, err = templates.Read(ctx, d.JetStream, d.Prefix)
		if isMissing(err) {
			return nil // the bucket is a resource, and was reported
		}
		return err
	})
	if err == nil && len(list) == 0 {
		return
	}
	if err == nil {
		err = d.ask(ctx, d.Store.CheckFirst)
	}
	find(Finding{What: "templates", Err: err, Good: fmt.Sprintf("%d, and their tags can be made in the store", len(list))})
}

// examineDurability asks for settings of a database. What it does not tell is for people to
// find out.
func (d *Doctor) examineDurability(ctx context.Context, find func(Finding)) {
	err := d.ask(ctx, d.Store.CheckDurability)
	var unsafe *store.UnsafeSettingError
	unknown := errors.Is(err, store.ErrSettingUnknown) && !errors.As(err, &unsafe)
	find(Finding{What: "store durability", Err: err, Warning: unknown, Good: "every commit is on disk before it is acknowledged"})
}
