package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/recovery"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// refusedFolder is serve's error for a folder that must not be served.
func refusedFolder(folder, witness string, why error) error {
	err := &embedded.RecoverError{Folder: folder, Witness: witness, Err: why}
	jetStream, _ := backend.Parse("jetstream", "")
	err.Flags = folderFlags(err, messages.DefaultPrefix, jetStream)
	return err
}

// remedies are errors with a part of their hints.
var remedies = []struct {
	err    error
	remedy string
}{
	{&natsconn.DeniedError{What: `Publish to "a"`, Missing: kv.LastingBucket(kv.Lasting{Bucket: "b"})}, "ask an administrator to run: idworker provision"},
	{&natsconn.DeniedError{What: `Subscription to "_INBOX.x"`}, "--inbox-prefix"},
	{&natsconn.DeniedError{What: `Publish to "_INBOX.x"`}, "idworker rights prints those of each role"},
	{&agreement.ForeignStoreError{Bucket: "ids_config", Installed: "jetstream", Given: "mysql a.b"}, "idworker tag import --switch-store with the new one"},
	{&durability.UnsafeError{Stream: "KV_b", Setting: durability.MaxAge}, "nats stream edit KV_b --max-age=0"},
	{&durability.UnsafeError{Stream: "KV_b", Setting: durability.Discard}, "nats stream edit KV_b --discard=new"},
	{&durability.UnsafeError{Stream: "KV_b", Setting: durability.NoExpiry}, "--lease-ttl"},
	{&durability.UnsafeError{Stream: "KV_b", Setting: durability.Storage}, "an empty bucket would issue all IDs again"},
	{jetstream.ErrBadBucket, "an empty bucket would issue all IDs again"},
	{nats.ErrAuthorization, "check the password, or whether the server has the account of the creds"},
	{jetstream.ErrBucketNotFound, "only for a new installation: idworker provision"},
	{jetstream.ErrStreamNotFound, "only for a new installation: idworker provision"},
	{&lease.ClockLostError{Wait: time.Minute, Bucket: "ids_config", Key: "clock_id"}, "wait for 1m0s, then delete key clock_id of bucket ids_config"},
	{&lease.HeldError{Worker: 7, Alive: true}, "omit --worker-id"},
	{embedded.ErrInUse, "choose another --data"},
	{refusedFolder("/data", "/data.witness", embedded.ErrDamaged), "idworker tag raise --all --data /data; or put a backup back"},
	{refusedFolder("/my data", "/it's", embedded.ErrDamaged), `--data '/my data' --witness '/it'\''s'`},
	{refusedFolder("/data", "/w", embedded.ErrNoWitness), "set --witness; otherwise raise all tags above every issued ID: idworker tag raise --all --data /data --witness /w"},
	{&embedded.RecoverError{Err: embedded.ErrDamaged, Flags: "--data /data --prefix x --store DSN"}, "tag raise --all --data /data --prefix x --store DSN; or put"},
	{register.ErrNoIdentity, "delete it if it is empty"},
	{fmt.Errorf("%w: /w: %w", register.ErrWitness, register.ErrForeignWitness), "a --witness of its own"},
	{fmt.Errorf("%w: /w: %w", register.ErrWitness, syscall.ENOSPC), "free disk space first"},
	{fmt.Errorf("%w: /d: %w", embedded.ErrUnwritten, syscall.EROFS), "make the file system writable first"},
	{&jetstream.APIError{ErrorCode: 10047}, "set max_file_store"},
	{&store.RegressionError{Bucket: "ids_register"}, "above every ID granted since: idworker tag raise --all"},
	{&kv.OlderError{Bucket: "ids_clock"}, "then delete key clock_id of the config bucket"},
	{&kv.OlderError{Bucket: "ids_config"}, "then make it anew: idworker tag raise --all"},
	{&kv.OlderError{Bucket: "ids_register"}, "above every ID granted since: idworker tag raise --all"},
	{health.ErrCopies, "idworker provision --replicas 3"},
	{health.ErrShared, "set max_file in the account"},
	{health.ErrNearlyFull, "set max_file in the account"},
	{store.ErrNoTable, "serve --migrate creates it"},
	{fmt.Errorf("%w: why", enrich.ErrUnproven), "--resume-unproven"},
	{fmt.Errorf("%w: why", enrich.ErrUndecided), "idworker enrich --resume-after SEQ"},
	{fmt.Errorf("%w: 7", enrich.ErrLost), "idworker enrich --resume-after SEQ"},
	{fmt.Errorf("x; %w", enrich.ErrNoDeadLetters), "--dead-letter"},
	{&enrich.TargetError{Subject: "a.>"}, "create one with --allow-batch"},
	{&enrich.TargetError{Subject: "a.>", Stream: "S"}, "nats stream edit S --allow-batch (NATS 2.12 or newer)"},
	{&store.BelowError{Tag: "order", First: 1, Floor: 501}, "--first 501 or above"},
	{&store.BelowError{Tag: "order", First: 1, Floor: math.MaxInt64}, "used up: choose another name"},
	{&store.UnsafeSettingError{Setting: "fsync", Value: "off", Want: "on"}, "set fsync = on in the database server"},
	{store.ErrSettingUnknown, "ask the database's administrator"},
	{&messages.Error{Code: messages.CodeBusy, Text: "no new tags", FullTemplate: "n.*"}, "idworker tag set 'n.*' --max-tags N"},
	{&store.OrderError{Tag: "order", Was: store.Strict, Want: store.Trend}, "give --order strict"},
	{fmt.Errorf("%w: x", tags.ErrNotNotified), "idworker tag rm"},
	{tags.ErrMaybeCreated, "check with idworker tag ls"},
	{recovery.ErrLoadersRun, "stop them, export again"},
	{health.ErrDifferent, "provision with these flags"},
	{health.ErrOtherLayout, "an installation keeps its layout: give all workers the same --layout and --epoch, or a new --prefix"},
	{fmt.Errorf("worker IDs: %w", lease.ErrForeignLayout), "an installation keeps its layout: give all workers the same --layout and --epoch, or a new --prefix"},
	{&worker.ForeignError{Prefix: "ids"}, "give one another --prefix"},
	{foreignRegion(snowflake.Twitter()), "give each region another --datacenter"},
	{foreignRegion(snowflake.Discord()), "give all regions one --layout"},
	{durability.ErrNoSync, "sync_interval: always"},
}

// foreignRegion is the error about another region's process with a layout.
func foreignRegion(layout snowflake.Layout) error {
	own := worker.ProcessIdentity{Role: worker.RoleSnowflake, Layout: snowflake.Twitter()}
	other := own
	other.Layout = layout
	return &worker.ForeignError{Prefix: "ids", Own: own, Other: other}
}

// Each error with a hint has it once, and has no other hint.
func TestHints(t *testing.T) {
	for _, h := range remedies {
		for _, err := range []error{h.err, wrapped(h.err), wrapped(wrapped(h.err))} {
			text := explain(err)
			if !strings.HasPrefix(text, err.Error()+"; ") {
				t.Errorf("%q does not begin with %q", text, err)
			}
			for _, other := range remedies {
				if got := strings.Count(text, other.remedy); (got == 1) != (other.remedy == h.remedy) {
					t.Errorf("%q has %q %d times", text, other.remedy, got)
				}
			}
		}
	}
}

// Joined errors have a hint each; errors without a hint do not change.
func TestHintsOfSeveralErrors(t *testing.T) {
	plain := errors.New("anything")
	if text := explain(plain); text != "anything" {
		t.Errorf("%q", text)
	}
	text := explain(errors.Join(remedies[0].err, plain, fmt.Errorf("%w: %w", plain, remedies[3].err)))
	lines := strings.Split(text, "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], remedies[0].remedy) || lines[1] != "anything" || !strings.Contains(lines[2], remedies[3].remedy) {
		t.Errorf("%q", text)
	}
}

func TestExitCodes(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	listen := &net.OpError{Op: "listen", Err: errors.New("address already in use")}
	for _, test := range []struct {
		err  error
		code int
	}{
		{nil, exitOK},
		{errors.New("anything"), exitFailure},
		{io.ErrUnexpectedEOF, exitFailure},
		{store.ErrTagExists, exitFailure},
		{listen, exitFailure},
		{embedded.ErrInUse, exitFailure},
		{embedded.ErrDamaged, exitFailure},
		{&natsconn.DeniedError{}, exitFailure},
		{problem.Usage(errors.New("bad flag")), exitUsage},
		{problem.Usage(context.DeadlineExceeded), exitUsage},
		{messages.ErrMalformed, exitUsage},
		{messages.ErrTag, exitUsage},
		{messages.ErrCount, exitUsage},
		{messages.ErrPrefix, exitUsage},
		{worker.ErrConfig, exitUsage},
		{agreement.ErrForeignStore, exitUsage},
		{enrich.ErrConfig, exitUsage},
		{store.ErrBadTag, exitUsage},
		{snowflake.ErrID, exitUsage},
		{snowflake.ErrTime, exitUsage},
		{messages.ErrNoTag, exitNoTag},
		{store.ErrNoTag, exitNoTag},
		{messages.ErrBusy, exitTryLater},
		{&messages.Error{Code: messages.CodeBusy, FullTemplate: "n.*"}, exitTryLater},
		{messages.ErrUnavailable, exitTryLater},
		{nats.ErrNoResponders, exitTryLater},
		{nats.ErrTimeout, exitTryLater},
		{nats.ErrNoServers, exitTryLater},
		{context.DeadlineExceeded, exitTryLater},
		{dial, exitTryLater},
		{messages.ErrExhausted, exitExhausted},
		{context.Canceled, exitInterrupt},
	} {
		for _, err := range []error{test.err, wrapped(test.err), errors.Join(test.err, nil)} {
			if code := exitCode(err); code != test.code {
				t.Errorf("%v: exit code %d, want %d", err, code, test.code)
			}
		}
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("start: %w", err)
}

// TestEachKindIsKnown: each kind of package problem has an exit code or a hint.
func TestEachKindIsKnown(t *testing.T) {
	source, err := os.ReadFile("../../internal/problem/kinds.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Kind = "(.+?)"`).FindAllStringSubmatch(string(source), -1)
	for _, kind := range found {
		if p := problems[problem.Kind(kind[1])]; p.exit == 0 && p.hint == "" {
			t.Errorf("nothing is said about %q", kind[1])
		}
	}
	if len(found) != len(problems) {
		t.Errorf("%d kinds, and %d lines about them", len(found), len(problems))
	}
}
