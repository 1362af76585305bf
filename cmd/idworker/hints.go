package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/doctor"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/embedded"
	"github.com/idworker/idworker/internal/natsconn"
	"github.com/idworker/idworker/internal/tags"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/ledger"
)

// Libraries say what is wrong, and this file says which flag or command mends it. It is the
// only place that does, so that a hint appears once.

// explain is the text of an error with what can be done about it. Errors that were joined
// are explained one by one, each on its line.
func explain(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && isLines(err.Error(), joined.Unwrap()) {
		var lines []string
		for _, one := range joined.Unwrap() {
			lines = append(lines, explain(one))
		}
		return strings.Join(lines, "\n")
	}
	if hint := hintFor(err); hint != "" {
		return err.Error() + "; " + hint
	}
	return err.Error()
}

// hintFor is what can be done about an error, or "". The first hint that fits counts.
func hintFor(err error) string {
	for _, hint := range hints {
		if text := hint(err); text != "" {
			return text
		}
	}
	for _, sentinel := range sentinelHints {
		if errors.Is(err, sentinel.err) {
			return sentinel.hint
		}
	}
	return ""
}

// isLines reports whether a text is that of errors.Join.
func isLines(text string, all []error) bool {
	var lines []string
	for _, one := range all {
		lines = append(lines, one.Error())
	}
	return text == strings.Join(lines, "\n")
}

// hints are those that depend on what an error says.
var hints = []func(error) string{hintDenied, hintForeignStore, hintUnsafe, hintClockLost, hintTarget, hintLedger}

const (
	hintProvision = "an administrator makes it: idworker provision; so does the first process that needs it, idworker serve say, if it may"
	hintSync      = "make sure of sync_interval: always in the jetstream block of every server; nats.conf shows how a user may ask"
)

// sentinelHints are those that only depend on what an error is.
var sentinelHints = []struct {
	err  error
	hint string
}{
	{jetstream.ErrBucketNotFound, hintProvision},
	{jetstream.ErrStreamNotFound, hintProvision},
	{jetstream.ErrConsumerNotFound, hintProvision},
	{embedded.ErrInUse, "stop that process, connect to it with --server, or choose another --data"},
	{embedded.ErrDamaged, "restore a backup, or start over in another --data folder, with tags whose --first is above all IDs in use"},
	{store.ErrNoTable, "serve --migrate creates it"},
	{tags.ErrMaybeCreated, "see idworker tag ls"},
	{doctor.ErrDifferent, "idworker provision with these flags would change it"},
	{doctor.ErrOtherLayout, "give workers the same --layout"},
	{durability.ErrNoSync, hintSync},
	{durability.ErrSyncUnknown, hintSync},
}

func hintDenied(err error) string {
	var denied *natsconn.DeniedError
	switch {
	case !errors.As(err, &denied):
		return ""
	case denied.Missing != nil:
		return "have an administrator run: idworker provision"
	case denied.Inbox():
		return "set --inbox-prefix to the one of this user"
	}
	return "nats.conf shows which rights each role needs"
}

func hintForeignStore(err error) string {
	var foreign *agreement.ForeignStoreError
	if !errors.As(err, &foreign) {
		return ""
	}
	return fmt.Sprintf("give it the same --store and --table. If the counters were moved on purpose, with all processes stopped, delete the key %s of the bucket %s",
		agreement.StoreKey, foreign.Bucket)
}

// hintLedger is for a ledger that is lost: only somebody who knows what was handed out can say
// from where on to count.
func hintLedger(err error) string {
	var lost *ledger.LostError
	switch {
	case !errors.As(err, &lost):
		return ""
	case lost.Tag != "":
		return "raise it above all IDs in use: idworker tag raise " + lost.Tag + " --next N"
	}
	return fmt.Sprintf("if the database is as new as the IDs in use, or after idworker tag raise --all --by N, delete the key %s of the bucket %s; loaders then fill the ledger again",
		lost.Key, lost.Config)
}

// hintUnsafe is for streams and buckets that forget. What cannot be changed in place has to
// be copied, for an empty bucket hands out all IDs again.
func hintUnsafe(err error) string {
	var unsafe *durability.UnsafeError
	if !errors.As(err, &unsafe) {
		return ""
	}
	switch unsafe.Setting {
	case durability.NoExpiry:
		return "idworker provision sets the TTL, see --lease-ttl"
	case durability.MaxAge:
		return "run nats stream edit " + unsafe.Stream + " --max-age=-1, and see that no entry has expired"
	case durability.Discard:
		return "run nats stream edit " + unsafe.Stream + " --discard=new, and see that no entry was discarded"
	}
	return "copy its entries to one without, and keep them when you replace it: an empty bucket hands out all IDs again"
}

func hintClockLost(err error) string {
	var lost *lease.ClockLostError
	if !errors.As(err, &lost) {
		return ""
	}
	return fmt.Sprintf("stop all workers for longer than %v, then delete the key %s of the bucket %s and start them again",
		lost.StopFor, lost.Key, lost.Bucket)
}

// hintTarget is for the stream that takes enriched events.
func hintTarget(err error) string {
	var target *enrich.TargetError
	switch {
	case !errors.As(err, &target):
		return ""
	case target.Stream == "":
		return "create one for it, with --allow-batch"
	}
	return "allow them: nats stream edit " + target.Stream + " --allow-batch"
}
