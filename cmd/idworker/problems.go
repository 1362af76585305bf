package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/problem"
)

// The exit codes, as docs/command-line.md lists them.
const (
	exitOK        = 0
	exitFailure   = 1   // anything else
	exitUsage     = 2   // the command line or the request is malformed; trying again is no use
	exitNoTag     = 3   // there is no such tag
	exitTryLater  = 4   // no IDs now, or nobody to ask
	exitExhausted = 5   // the tag's numbers are used up
	exitInterrupt = 130 // a signal ended it before it was done
)

// exits says what each exit code means, in the order of the codes.
var exits = []struct {
	code    int
	meaning string
}{
	{exitOK, "success"},
	{exitFailure, "any other failure"},
	{exitUsage, "invalid request, setting or argument: retrying is no use"},
	{exitNoTag, "no such tag"},
	{exitTryLater, "no IDs at the moment, or no worker to ask: retry later"},
	{exitExhausted, "the tag's numbers are used up"},
	{exitInterrupt, "a signal ended the command before it was done"},
}

const (
	hintRaise     = "raise all tags by more than any can have been granted since: idworker tag raise --all --by N"
	hintRaiseData = "raise all tags by more than can have been handed out since: idworker tag raise --all --by N %s"
)

// problems says of each kind of problem with which code it ends the process, exitFailure if nothing is said, and which
// flag or command mends it: values of the error are filled in. So a hint appears once; what
// only one command can say, about its own arguments, it says itself.
var problems = map[problem.Kind]struct {
	exit int
	hint string
}{
	problem.Invalid:   {exit: exitUsage},
	problem.NotFound:  {exit: exitNoTag},
	problem.TryLater:  {exit: exitTryLater},
	problem.Exhausted: {exit: exitExhausted},

	problem.LoginRefused:   {hint: "log in as a user that the server knows: --creds, --nkey, --user with --password-file or $NATS_PASSWORD, or user and password in $NATS_URL"},
	problem.Denied:         {hint: "nats.conf shows which rights each role needs"},
	problem.DeniedCreation: {hint: "have an administrator run: idworker provision"},
	problem.DeniedInbox:    {hint: "set --inbox-prefix to the one of this user"},
	problem.NotProvisioned: {hint: "an administrator creates it: idworker provision; a process that is allowed to, such as idworker serve, creates it itself"},
	problem.Neighbours: {hint: "give one of them another --prefix, or an account of its own, or deny its subjects (ids.> with the default prefix) and $SRV.> to the leaf node link; " +
		"if both should be one installation, connect all processes to the JetStream of one, see --js-domain"},

	problem.PortOfIdworker:  {hint: "another idworker serves there: use that one, or join it with --server nats://%s, or choose another port with --listen"},
	problem.PortOfNATS:      {hint: "the NATS server %.100q listens there: have it hold the IDs with --server nats://%s, or choose another port with --listen, and name that with --server in all other commands"},
	problem.PortOfOther:     {hint: "what listens there is no NATS server: stop it, or choose another port with --listen, and name that with --server in all other commands"},
	problem.FolderInUse:     {hint: "stop that process, connect to it with --server, or choose another --data or --witness"},
	problem.FolderGone:      {hint: "put it back, or, before you serve from another, restore a backup, or create tags with --first above all IDs in use; see Restore from backup in docs/operations.md"},
	problem.FolderUnwritten: {hint: "serve has ended: start it again once the disk has room, unless a supervisor does"},
	problem.FolderDamaged:   {hint: hintRaiseData + "; or, to start over with tags whose --first is above all IDs in use, take another folder"},
	problem.WitnessGone:     {hint: "if it is somewhere else, name it with --witness; otherwise " + hintRaiseData},
	problem.WitnessUnusable: {hint: "--witness names a file of this installation alone, or one that does not exist yet, in a place that does not go back with the data"},

	// What cannot be changed in place has to be copied, for an empty bucket hands out all IDs again.
	problem.MayForget:     {hint: "copy its entries to a stream without this setting, and keep them when you replace it: an empty bucket hands out all IDs again"},
	problem.ExpiryMissing: {hint: "idworker provision sets the TTL, see --lease-ttl"},
	problem.EntriesExpire: {hint: "run nats stream edit %s --max-age=-1, and see that no entry has expired"},
	problem.Discards:      {hint: "run nats stream edit %s --discard=new, and see that no entry was discarded"},
	problem.BucketGone:    {hint: "restore it from a backup"},
	problem.ClockGone:     {hint: "stop all workers for longer than a lease, --max-ahead and twice --max-clock-skew together, then delete the key clock_id of the config bucket"},
	problem.RegisterGone:  {hint: "restore it if there is a backup, and " + hintRaise},
	problem.ConfigGone:    {hint: "see that all processes have the same --store and --layout, then create it yourself: nats kv add %s"},
	problem.Regressed:     {hint: hintRaise},
	problem.NoIdentity:    {hint: "delete it if nothing is in it; idworker tag raise --all --by N gives it an identity otherwise"},
	problem.NotSynced:     {hint: "make sure of sync_interval: always in the jetstream block of every server; nats.conf shows how a user may ask; or accept it with --allow-unsynced"},
	problem.StorageFull:   {hint: "set max_file in the jetstream block of the account in the server's configuration; nats.conf shows how"},
	problem.TooFewCopies:  {hint: "start the servers that are away; of what has one copy, idworker provision --replicas 3 makes more"},
	problem.Different:     {hint: "idworker provision with these flags would change it"},

	problem.ForeignStore:   {exitUsage, "give it the same --store and --table. If the counters were moved on purpose, with all processes stopped, delete the key %s of the bucket %s"},
	problem.NoTable:        {hint: "serve --migrate creates it"},
	problem.UnsafeSetting:  {hint: "set %s = %s in the database server's configuration"},
	problem.UnknownSetting: {hint: "ask who runs the database; docs/operations.md, Durability, says which values it needs"},

	problem.Below:        {hint: "create it with --first %d or above"},
	problem.UsedUp:       {hint: "its numbers are used up: choose another name"},
	problem.OtherOrder:   {hint: "give --order %s, or choose another name"},
	problem.MaybeCreated: {hint: "see idworker tag ls"},
	problem.NotTold:      {hint: "idworker tag rm tells them again"},
	problem.LoadersRun:   {hint: "stop them all, export once more, and import that"},

	problem.NobodyAnswers: {hint: "start one with: idworker serve"},
	problem.OtherLayout:   {hint: "give workers the same --layout"},
	problem.RunsOut:       {hint: "before that, make what keeps such IDs hold larger ones, or take them from another tag or layout; see Forecasts in docs/monitoring.md"},
	problem.WorkerIDHeld:  {hint: "idworker workers lists who holds which; give each process a worker ID of its own, or leave --worker-id out of all of them to have any that is free"},
	problem.ClockLost:     {hint: "stop all workers for longer than %v, then delete the key %s of the bucket %s and start them again"},
	problem.Exposed: {hint: "give it --api-tls-cert, --api-tls-key and --api-tokens, or an address of this machine such as 127.0.0.1:8080; " +
		"if the network itself keeps strangers off, say --api-insecure"},

	problem.Unproven:      {hint: "if you know from elsewhere, such as a consumer of the target, that no event behind SEQ was enriched, add --resume-unproven"},
	problem.Undecided:     {hint: "find out which event of the source is the last one that is enriched, and decide: idworker enrich --resume-after SEQ, with the other flags of this enrichment"},
	problem.NoDeadLetters: {hint: "--dead-letter names one"},
	problem.NoTarget:      {hint: "create one for it, with --allow-batch"},
	problem.NoBatches:     {hint: "allow them: nats stream edit %s --allow-batch; a server older than 2.12 has none"},
}

// foreign are the kinds of errors of other modules.
var foreign = []struct {
	err  error
	kind problem.Kind
}{
	{nats.ErrAuthorization, problem.LoginRefused},
	{jetstream.ErrBucketNotFound, problem.NotProvisioned},
	{jetstream.ErrStreamNotFound, problem.NotProvisioned},
	{jetstream.ErrConsumerNotFound, problem.NotProvisioned},
	{nats.ErrNoResponders, problem.TryLater},
	{nats.ErrTimeout, problem.TryLater},
	{nats.ErrNoServers, problem.TryLater},
	{context.DeadlineExceeded, problem.TryLater},
}

// exitCode is with which code an error ends the process. If it is of several kinds, the one that
// is least worth another try counts.
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
	var network *net.OpError // the database is away, unless it is about an address of our own
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

// explain is the text of an error with what can be done about it. Errors that were joined
// are explained one by one, each on its line.
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

// full finds the template in the answer of a worker to whom a loader has said that it is full.
var full = regexp.MustCompile(`template (\S+) is full`)

// hintFor is what can be done about an error, or "". The outermost problem with a hint counts.
func hintFor(err error) string {
	for p := range problem.In(err) {
		kind, values := p.Problem()
		if hint := problems[kind].hint; hint != "" {
			return fmt.Sprintf(hint, values...)
		}
		if found := full.FindStringSubmatch(err.Error()); found != nil && kind == problem.TryLater {
			return "to have it make more: idworker tag set '" + found[1] + "' --max-tags N"
		}
	}
	for _, f := range foreign {
		if hint := problems[f.kind].hint; hint != "" && errors.Is(err, f.err) {
			return hint
		}
	}
	return ""
}
