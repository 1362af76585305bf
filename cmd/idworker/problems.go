package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/problem"
)

// Exit codes, listed in docs/command-line.md.
const (
	exitOK        = 0
	exitFailure   = 1   // anything else
	exitUsage     = 2   // malformed command line or request
	exitNoTag     = 3   // no such tag
	exitTryLater  = 4   // no IDs or no worker at the moment
	exitExhausted = 5   // the tag's IDs are used up
	exitInterrupt = 130 // interrupted by a signal; serve and enrich end with 0
)

// exits lists the exit codes with their meanings, in ascending order.
var exits = []struct {
	code    int
	meaning string
}{
	{exitOK, "success"},
	{exitFailure, "any other failure"},
	{exitUsage, "invalid request, setting or argument; do not retry"},
	{exitNoTag, "no such tag"},
	{exitTryLater, "no IDs or no worker at the moment; retry later"},
	{exitExhausted, "the tag's IDs are used up"},
	{exitInterrupt, "interrupted by a signal; serve and enrich end with 0"},
}

const (
	hintRaise     = "raise all tags above every ID granted since: idworker tag raise --all"
	hintRaiseData = "raise all tags above every issued ID: idworker tag raise --all %[1]s"
)

// problems maps each kind of problem to its exit code (default: exitFailure)
// and to a hint: the flag or command that helps, filled in with values of the
// error. Advice about a command's own arguments stays in that command.
var problems = map[problem.Kind]struct {
	exit int
	hint string
}{
	problem.Invalid:   {exit: exitUsage},
	problem.NotFound:  {exit: exitNoTag},
	problem.TryLater:  {exit: exitTryLater},
	problem.Exhausted: {exit: exitExhausted},

	problem.LoginRefused:   {hint: "check the password, or whether the server has the account of the creds (nsc push); log in with --creds, --nkey, --user or $NATS_URL"},
	problem.Denied:         {hint: "idworker rights prints those of each role"},
	problem.DeniedCreation: {hint: "ask an administrator to run: idworker provision"},
	problem.DeniedInbox:    {hint: "set --inbox-prefix to this user's prefix"},
	problem.NotProvisioned: {hint: "if NATS lost it: idworker restore DIR; only for a new installation: idworker provision, or start idworker serve"},
	problem.Neighbours: {hint: "give one another --prefix or account, or deny its subjects and $SRV.> on the leaf node link; " +
		"to join them, use one JetStream with --js-domain; for snowflake IDs in another region, use --role snowflake"},
	problem.DatacenterTaken: {hint: "give each region another --datacenter, in a --layout with datacenter bits"},
	problem.RegionLayout:    {hint: "give all regions one --layout and --epoch"},

	problem.PortOfIdworker:  {hint: "another idworker serves there: join it with --server nats://%s, or choose another port with --listen"},
	problem.PortOfNATS:      {hint: "NATS server %.100q listens there: use it with --server nats://%s, or choose another port with --listen"},
	problem.PortOfOther:     {hint: "another program listens there: stop it, or choose another port with --listen"},
	problem.FolderInUse:     {hint: "stop that process, connect to it with --server, or choose another --data or --witness"},
	problem.FolderGone:      {hint: "put it back, or restore a backup before serving again; see docs/backup-restore.md"},
	problem.FolderDamaged:   {hint: hintRaiseData + "; or put a backup back: idworker restore DIR, with the same flags"},
	problem.WitnessGone:     {hint: "if it moved, set --witness; otherwise " + hintRaiseData},
	problem.WitnessUnusable: {hint: "if NATS lost its data: idworker restore DIR; a new installation needs a --witness of its own, outside the data that a restore replaces"},
	problem.Witnessed:       {hint: "check the server; if its data was lost: idworker restore DIR; to begin a new installation, with IDs from 1, add --new"},
	problem.DiskFull:        {hint: "free disk space first"},
	problem.DiskReadOnly:    {hint: "make the file system writable first; the kernel's log may show why it is not"},

	problem.MayForget:     {hint: "see A register that cannot be opened in docs/backup-restore.md, which has the command; an empty bucket would issue all IDs again"},
	problem.ExpiryMissing: {hint: "idworker provision sets the TTL (--lease-ttl)"},
	problem.EntriesExpire: {hint: "run nats stream edit %s --max-age=0, and put back what has expired; see A register that cannot be opened in docs/backup-restore.md"},
	problem.Discards:      {hint: "run nats stream edit %s --discard=new, and put back what was discarded; see A register that cannot be opened in docs/backup-restore.md"},
	problem.BucketGone:    {hint: "restore it from a backup"},
	problem.Raising:       {exit: exitTryLater, hint: "wait until it has ended, or end it with: idworker tag raise --all"},
	problem.RaiseUndone:   {exit: exitUsage, hint: "raise without a number: idworker tag raise --all; then single tags further: idworker tag raise TAG --next ID"},
	problem.NoneToRaise:   {hint: "idworker restore DIR puts a backup back; without one, idworker provision makes a new installation, and idworker tag raise --all then raises it, before it has tags"},
	problem.ClockGone:     {hint: "stop the workers that are cut off from NATS, wait for a lease, --max-ahead and twice --max-clock-skew together, then delete key clock_id of the config bucket; the other workers may run on, see docs/backup-restore.md"},
	problem.RegisterGone:  {hint: "idworker restore DIR puts back what a backup has; without one, " + hintRaise},
	problem.ConfigGone:    {hint: "idworker restore DIR puts it back; without a backup, check that all processes have the same --store and --layout, then make it anew: idworker tag raise --all"},
	problem.Regressed:     {hint: "idworker restore DIR --raise-anyway; without a backup, " + hintRaise},
	problem.MustRaise:     {hint: hintRaise},
	problem.PinnedNone: {hint: "check the server; if its data was lost: idworker restore DIR; to begin a new one, with IDs from 1: " +
		"idworker provision --new --installation %s"},
	problem.PinnedOther: {hint: "check the server; if that was made after the data was lost: idworker restore DIR --replace-installation %s"},
	problem.NoIdentity:  {hint: "delete it if it is empty; otherwise idworker tag raise --all gives it an identity"},
	problem.NotSynced:   {hint: "set sync_interval: always on every server and let this user check it (see nats.conf), or accept it with --allow-unsynced"},
	problem.OldServer:   {exit: exitUsage, hint: "upgrade these servers to nats-server 2.10.23 or newer, one at a time; one that runs an older version must be stopped with SIGTERM only"},
	problem.StorageFull: {hint: "set max_file in the account's jetstream block (see nats.conf)"},
	problem.ServerFull: {hint: "set max_file_store in the NATS server's jetstream block (see nats.conf); without it, the limit is three quarters of " +
		"the disk space that was free at the server's start"},
	problem.Fills:        {hint: "lower --max-tags of the templates (idworker tag set), or raise max_file of the account and the bucket's limit"},
	problem.TooFewCopies: {hint: "start the missing servers; for single copies, run idworker provision --replicas 3"},
	problem.CopiesDiffer: {hint: "one at a time, stop each server that has fewer messages than the others, delete its JetStream folder, and start it; then idworker tag raise --all"},

	problem.SmallPayload: {hint: "set max_payload: 1MB, the default, on every NATS server"},
	problem.Different:    {hint: "idworker provision with these flags would change it"},

	problem.ForeignStore: {exitUsage, "use the same --store and --table, or move the counters (see docs/backup-restore.md): " +
		"stop all loaders, run idworker tag export with the old store, then idworker tag import --switch-store with the new one"},
	problem.NoTable:        {hint: "serve --migrate creates it"},
	problem.UnsafeSetting:  {hint: "set %s = %s in the database server's configuration"},
	problem.UnknownSetting: {hint: "ask the database's administrator; docs/stores.md lists the values"},

	problem.TemplateFull: {exit: exitTryLater, hint: "raise its limit: idworker tag set '%s' --max-tags N"},
	problem.Below:        {hint: "create it with --first %d or above"},
	problem.UsedUp:       {hint: "its IDs are used up: choose another name"},
	problem.OtherOrder:   {hint: "give --order %s, or choose another name"},
	problem.MaybeCreated: {hint: "check with idworker tag ls"},
	problem.NotTold:      {hint: "idworker tag rm notifies them again"},
	problem.LoadersRun:   {hint: "stop them, export again, and import that"},

	problem.NobodyAnswers: {hint: "see idworker status, or start one with: idworker serve"},
	problem.EpochAhead:    {exit: exitUsage, hint: "set the clock right, or choose an --epoch that is past"},
	problem.OtherLayout:   {hint: "an installation keeps its layout: give all workers the same --layout and --epoch, or a new --prefix"},
	problem.RunsOut:       {hint: "before then, widen the fields that hold these IDs, or use another tag or layout; see docs/monitoring.md"},
	problem.WorkerIDHeld:  {hint: "idworker workers lists holders; give each process its own worker ID, or omit --worker-id on all"},
	problem.ClockLost:     {hint: "stop the workers that are cut off from NATS, wait for %v, then delete key %s of bucket %s; the other workers may run on, see docs/backup-restore.md"},
	problem.Exposed: {hint: "give it --api-tls-cert, --api-tls-key and --api-tokens, or a loopback address; " +
		"on a trusted network, --api-insecure allows it"},

	problem.Unproven:      {hint: "if no event after SEQ was enriched, as a consumer of the target can show, add --resume-unproven"},
	problem.Undecided:     {hint: "find the source's last enriched event, then run: idworker enrich --resume-after SEQ, with this enrichment's other flags"},
	problem.NoDeadLetters: {hint: "name one with --dead-letter"},
	problem.NoTarget:      {hint: "create one with --allow-batch"},
	problem.NoBatches:     {hint: "run nats stream edit %s --allow-batch (NATS 2.12 or newer)"},
}

// foreign maps errors of other modules to kinds.
var foreign = []struct {
	err  error
	kind problem.Kind
}{
	{syscall.ENOSPC, problem.DiskFull},
	{syscall.EROFS, problem.DiskReadOnly},
	{&jetstream.APIError{ErrorCode: 10023}, problem.ServerFull}, // insufficient resources
	{&jetstream.APIError{ErrorCode: 10047}, problem.ServerFull}, // insufficient storage resources
	{nats.ErrAuthorization, problem.LoginRefused},
	{jetstream.ErrBadBucket, problem.MayForget},
	{jetstream.ErrBucketNotFound, problem.NotProvisioned},
	{jetstream.ErrStreamNotFound, problem.NotProvisioned},
	{jetstream.ErrConsumerNotFound, problem.NotProvisioned},
	{nats.ErrNoResponders, problem.TryLater},
	{nats.ErrTimeout, problem.TryLater},
	{nats.ErrNoServers, problem.TryLater},
	{context.DeadlineExceeded, problem.TryLater},
}

// exitCode returns the exit code for an error. Of several kinds, that which
// is least worth a retry counts.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	code := exitInterrupt + 1
	for p := range problem.In(err) {
		kind, _ := p.Problem()
		if exit := problems[kind].exit; exit != 0 {
			code = min(code, exit)
		}
	}
	// The database is unreachable, unless the address is our own.
	var network *net.OpError
	switch {
	case code == exitUsage:
		return code
	case errors.Is(err, context.Canceled):
		return exitInterrupt
	case errors.As(err, &network) && network.Op != "listen":
		return exitTryLater
	}
	for _, f := range foreign {
		if exit := problems[f.kind].exit; exit != 0 && errors.Is(err, f.err) {
			code = min(code, exit)
		}
	}
	if code > exitInterrupt {
		return exitFailure
	}
	return code
}

// explain returns the text of an error with its hint. Joined errors have a line
// each.
func explain(err error) string {
	parts := problem.Parts(err)
	if len(parts) == 1 {
		if hint := hintFor(err); hint != "" {
			return err.Error() + "; " + hint
		}
		return err.Error()
	}
	var lines []string
	for _, one := range parts {
		lines = append(lines, explain(one))
	}
	return strings.Join(lines, "\n")
}

// hintFor returns the hint for an error, or "". The outermost problem with a
// hint counts.
func hintFor(err error) string {
	for p := range problem.In(err) {
		kind, values := p.Problem()
		if hint := problems[kind].hint; hint != "" {
			return fmt.Sprintf(hint, values...)
		}
	}
	for _, f := range foreign {
		if hint := problems[f.kind].hint; hint != "" && errors.Is(err, f.err) {
			return hint
		}
	}
	return ""
}
