package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/doctor"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/embedded"
	"github.com/idworker/idworker/internal/natsconn"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/tags"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/ledger"
)

// hinted are errors that have a remedy, with what names it.
var hinted = []struct {
	err    error
	remedy string
}{
	{&natsconn.DeniedError{What: `Publish to "a"`, Missing: resource.Bucket(jetstream.KeyValueConfig{Bucket: "b"})}, "have an administrator run: idworker provision"},
	{&natsconn.DeniedError{What: `Subscription to "_INBOX.x"`}, "--inbox-prefix"},
	{&natsconn.DeniedError{What: `Publish to "_INBOX.x"`}, "nats.conf shows which rights"},
	{&agreement.ForeignStoreError{Bucket: "ids_config", Installed: "jetstream", Given: "mysql a.b"}, "delete the key store of the bucket ids_config"},
	{&durability.UnsafeError{Stream: "KV_b", Setting: durability.MaxAge}, "nats stream edit KV_b --max-age=-1"},
	{&durability.UnsafeError{Stream: "KV_b", Setting: durability.Discard}, "nats stream edit KV_b --discard=new"},
	{&durability.UnsafeError{Stream: "KV_b", Setting: durability.NoExpiry}, "--lease-ttl"},
	{&durability.UnsafeError{Stream: "KV_b", Setting: durability.Storage}, "copy its entries to one without"},
	{jetstream.ErrBucketNotFound, "an administrator makes it: idworker provision"},
	{jetstream.ErrStreamNotFound, "an administrator makes it: idworker provision"},
	{&lease.ClockLostError{StopFor: time.Minute, Bucket: "ids_config", Key: "clock"}, "stop all workers for longer than 1m0s"},
	{embedded.ErrInUse, "choose another --data"},
	{embedded.ErrDamaged, "tags whose --first"},
	{store.ErrNoTable, "serve --migrate creates it"},
	{&enrich.TargetError{Err: enrich.ErrNoTarget, Subject: "a.>"}, "create one for it, with --allow-batch"},
	{&enrich.TargetError{Err: enrich.ErrNoBatches, Subject: "a.>", Stream: "S"}, "nats stream edit S --allow-batch"},
	{&ledger.LostError{Bucket: "ids_ledger", Config: "ids_config", Key: "ledger"}, "delete the key ledger of the bucket ids_config"},
	{&ledger.LostError{Bucket: "ids_ledger", Tag: "order"}, "idworker tag raise order --next N"},
	{tags.ErrMaybeCreated, "see idworker tag ls"},
	{doctor.ErrDifferent, "provision with these flags"},
	{doctor.ErrOtherLayout, "give workers the same --layout"},
	{durability.ErrNoSync, "sync_interval: always"},
}

// Each error that has a remedy on the command line names it, once, and no other.
func TestHints(t *testing.T) {
	for _, h := range hinted {
		for _, err := range []error{h.err, wrapped(h.err), wrapped(wrapped(h.err))} {
			text := explain(err)
			if !strings.HasPrefix(text, err.Error()+"; ") {
				t.Errorf("%q does not begin with %q", text, err)
			}
			for _, other := range hinted {
				if got := strings.Count(text, other.remedy); (got == 1) != (other.remedy == h.remedy) {
					t.Errorf("%q has %q %d times", text, other.remedy, got)
				}
			}
		}
	}
}

// Errors that were joined have their remedies each, and those without are left alone.
func TestHintsOfSeveralErrors(t *testing.T) {
	plain := errors.New("anything")
	if text := explain(plain); text != "anything" {
		t.Errorf("%q", text)
	}
	text := explain(errors.Join(hinted[0].err, plain, fmt.Errorf("%w: %w", plain, hinted[3].err)))
	lines := strings.Split(text, "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], hinted[0].remedy) || lines[1] != "anything" || !strings.Contains(lines[2], hinted[3].remedy) {
		t.Errorf("%q", text)
	}
}
