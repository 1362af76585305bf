package explain

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/joined"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/api"
)

// Libraries say what is wrong, and this file says which flag or command mends it, so that a
// hint appears once. What only one command can say, about its own arguments, it says itself.

// Text is the text of an error with what can be done about it. Errors that were joined
// are explained one by one, each on its line.
func Text(err error) string {
	if all := joined.Parts(err); len(all) > 1 {
		var lines []string
		for _, one := range all {
			lines = append(lines, Text(one))
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

// hints are those that depend on what an error says.
var hints = []func(error) string{
	hintPort, hintDenied, hintForeignStore, hintUnsafe, hintClockLost, hintTarget, hintBelow, hintUnsafeSetting,
	hintRecover, hintOlder, hintOrder, hintFull, hintExposed,
}

const (
	hintRaise      = "raise all tags by more than any can have been granted since: idworker tag raise --all --by N"
	hintLogin      = "log in as a user that the server knows: --creds, --nkey, --user with --password-file or $NATS_PASSWORD, or user and password in $NATS_URL"
	hintProvision  = "an administrator creates it: idworker provision; a process that is allowed to, such as idworker serve, creates it itself"
	hintSync       = "make sure of sync_interval: always in the jetstream block of every server; nats.conf shows how a user may ask; or accept it with --allow-unsynced"
	hintResume     = "find out which event of the source is the last one that is enriched, and decide: idworker enrich --resume-after SEQ, with the other flags of this enrichment"
	hintStorage    = "set max_file in the jetstream block of the account in the server's configuration; nats.conf shows how"
	hintNeighbours = "give one of them another --prefix, or an account of its own, or deny its subjects (ids.> with the default prefix) and $SRV.> to the leaf node link; " +
		"if both should be one installation, connect all processes to the JetStream of one, see --js-domain"
)

// sentinelHints are those that only depend on what an error is.
var sentinelHints = []struct {
	err  error
	hint string
}{
	{nats.ErrAuthorization, hintLogin},
	{jetstream.ErrBucketNotFound, hintProvision},
	{jetstream.ErrStreamNotFound, hintProvision},
	{jetstream.ErrConsumerNotFound, hintProvision},
	{embedded.ErrInUse, "stop that process, connect to it with --server, or choose another --data or --witness"},
	{embedded.ErrGone, "put it back, or, before you serve from another, restore a backup, or create tags with --first above all IDs in use; see Restore from backup in docs/operations.md"},
	{embedded.ErrUnwritten, "serve has ended: start it again once the disk has room, unless a supervisor does"},
	{register.ErrWitness, "--witness names a file of this installation alone, or one that does not exist yet, in a place that does not go back with the data"},
	{store.ErrNoTable, "serve --migrate creates it"},
	{tags.ErrMaybeCreated, "see idworker tag ls"},
	{tags.ErrNotTold, "idworker tag rm tells them again"},
	{store.ErrRegressed, hintRaise},
	{register.ErrNoIdentity, "delete it if nothing is in it; idworker tag raise --all --by N gives it an identity otherwise"},
	{tags.ErrLoadersRun, "stop them all, export once more, and import that"},
	{doctor.ErrNobody, "start one with: idworker serve"},
	{doctor.ErrDifferent, "idworker provision with these flags would change it"},
	{doctor.ErrCopies, "start the servers that are away; of what has one copy, idworker provision --replicas 3 makes more"},
	{doctor.ErrRunsOut, "before that, make what keeps such IDs hold larger ones, or take them from another tag or layout; see Forecasts in docs/monitoring.md"},
	{doctor.ErrShared, hintStorage},
	{doctor.ErrNearlyFull, hintStorage},
	{lease.ErrHeld, "idworker workers lists who holds which; give each process a worker ID of its own, or leave --worker-id out of all of them to have any that is free"},
	{doctor.ErrOtherLayout, "give workers the same --layout"},
	{store.ErrSettingUnknown, "ask who runs the database; docs/operations.md, Durability, says which values it needs"},
	{worker.ErrForeign, hintNeighbours},
	{enrich.ErrUnproven, "if you know from elsewhere, such as a consumer of the target, that no event behind SEQ was enriched, add --resume-unproven"},
	{enrich.ErrUndecided, hintResume},
	{enrich.ErrLost, hintResume},
	{enrich.ErrNoDeadLetters, "--dead-letter names one"},
	{durability.ErrNoSync, hintSync},
	{durability.ErrSyncUnknown, hintSync},
}

// hintPort is for a port of the embedded server on which something else listens.
func hintPort(err error) string {
	var port *embedded.PortError
	switch {
	case !errors.As(err, &port):
		return ""
	case port.NATS && port.Server == embedded.ServerName:
		return "another idworker serves there: use that one, or join it with --server nats://" + port.Address + ", or choose another port with --listen"
	case port.NATS:
		return fmt.Sprintf("the NATS server %.100q listens there: have it hold the IDs with --server nats://%s, or choose another port with --listen, and name that with --server in all other commands", port.Server, port.Address)
	}
	return "what listens there is no NATS server: stop it, or choose another port with --listen, and name that with --server in all other commands"
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
	return "give it the same --store and --table; or start over with another --data folder; or move the counters here, as docs/operations.md shows: " +
		"stop all loaders (an embedded server goes on with serve --role worker), run idworker tag export with the old store, " +
		"and idworker tag import --switch-store with the new one"
}

// hintExposed is for a door that is open to everybody.
func hintExposed(err error) string {
	var exposed *api.ExposedError
	if !errors.As(err, &exposed) {
		return ""
	}
	return "give it --api-tls-cert, --api-tls-key and --api-tokens, or an address of this machine such as 127.0.0.1:8080; " +
		"if the network itself keeps strangers off, say --api-insecure"
}

// full finds the template in the answer of a worker to whom a loader has said that it is full.
var full = regexp.MustCompile(`template (\S+) is full`)

// hintFull is for a tag that does not come into being.
func hintFull(err error) string {
	found := full.FindStringSubmatch(err.Error())
	if found == nil || !errors.Is(err, messages.ErrBusy) {
		return ""
	}
	return "to have it make more: idworker tag set '" + found[1] + "' --max-tags N"
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
	return "copy its entries to a stream without this setting, and keep them when you replace it: an empty bucket hands out all IDs again"
}

// hintUnsafeSetting is for a database that can forget in a crash what it acknowledged.
func hintUnsafeSetting(err error) string {
	var unsafe *store.UnsafeSettingError
	if !errors.As(err, &unsafe) {
		return ""
	}
	return "set " + unsafe.Setting + " = " + unsafe.Want + " in the database server's configuration"
}

// hintBelow is for a tag that was removed, and is created again.
func hintBelow(err error) string {
	var below *store.BelowError
	if !errors.As(err, &below) {
		return ""
	}
	if below.Floor == math.MaxInt64 {
		return "its numbers are used up: choose another name"
	}
	return fmt.Sprintf("create it with --first %d or above", below.Floor)
}

// hintOrder is for a name that had a tag with the other order.
func hintOrder(err error) string {
	var order *store.OrderError
	if !errors.As(err, &order) {
		return ""
	}
	return fmt.Sprintf("give --order %s, or choose another name", order.Was)
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
	return "allow them: nats stream edit " + target.Stream + " --allow-batch; a server older than 2.12 has none"
}

// hintRecover is for a data folder that may be an older copy. Which it is, and what may have been
// handed out since, only an operator can know.
func hintRecover(err error) string {
	var folder *embedded.RecoverError
	if !errors.As(err, &folder) {
		return ""
	}
	where := "--data " + shellWord(folder.Folder)
	if folder.Witness != embedded.WitnessOf(folder.Folder) {
		where += " --witness " + shellWord(folder.Witness)
	}
	where += folder.Flags
	hint := fmt.Sprintf("raise all tags by more than can have been handed out since: idworker tag raise --all --by N %s", where)
	if errors.Is(err, embedded.ErrNoWitness) {
		return "if it is somewhere else, name it with --witness; otherwise " + hint
	}
	return hint + "; or, to start over with tags whose --first is above all IDs in use, take another folder"
}

// plain are the paths that a shell reads as they are.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord is a path as it is typed in a shell.
func shellWord(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// hintOlder is for a bucket that is gone. What made it can only be decided by who knows why.
func hintOlder(err error) string {
	var older *kv.OlderError
	if !errors.As(err, &older) {
		return ""
	}
	switch {
	case strings.HasSuffix(older.Bucket, "_clock"):
		return "stop all workers for longer than a lease, --max-ahead and twice --max-clock-skew together, then delete the key clock_id of the config bucket"
	case strings.HasSuffix(older.Bucket, "_register"):
		return "restore it if there is a backup, and " + hintRaise
	case strings.HasSuffix(older.Bucket, "_config"):
		return "see that all processes have the same --store and --layout, then create it yourself: nats kv add " + older.Bucket
	}
	return "restore it from a backup"
}
