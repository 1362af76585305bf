// Package explain says what an error means to who typed the command: which flag or command
// mends it ([Text]), and with which code the process ends ([ExitCode]). The packages below
// know neither flags nor commands; they return typed errors.
package explain

import (
	"context"
	"errors"
	"net"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/api"
)

// The exit codes, as docs/command-line.md lists them.
const (
	ExitOK        = 0
	ExitFailure   = 1   // anything else
	ExitUsage     = 2   // the command line or the request is malformed; trying again is no use
	ExitNoTag     = 3   // there is no such tag
	ExitTryLater  = 4   // no IDs now, or nobody to ask
	ExitExhausted = 5   // the tag's numbers are used up
	ExitInterrupt = 130 // a signal ended it before it was done
)

// Exits says what each exit code means, in the order of the codes.
var Exits = []struct {
	Code    int
	Meaning string
}{
	{ExitOK, "success"},
	{ExitFailure, "any other failure"},
	{ExitUsage, "invalid request, setting or argument: retrying is no use"},
	{ExitNoTag, "no such tag"},
	{ExitTryLater, "no IDs at the moment, or no worker to ask: retry later"},
	{ExitExhausted, "the tag's numbers are used up"},
	{ExitInterrupt, "a signal ended the command before it was done"},
}

// usageError is an error in the command line.
type usageError struct{ error }

// Usage makes an error one of the command line: trying again is no use.
func Usage(err error) error { return &usageError{err} }

// exits says with which code an error ends the process.
var exits = []struct {
	err  error
	code int
}{
	{context.Canceled, ExitInterrupt},
	{messages.ErrMalformed, ExitUsage},
	{messages.ErrTag, ExitUsage},
	{messages.ErrCount, ExitUsage},
	{messages.ErrPrefix, ExitUsage},
	{worker.ErrConfig, ExitUsage},
	{api.ErrConfig, ExitUsage},
	{api.ErrTokens, ExitUsage},
	{agreement.ErrForeignStore, ExitUsage},
	{enrich.ErrConfig, ExitUsage},
	{store.ErrBadTag, ExitUsage},
	{tags.ErrFormat, ExitUsage},
	{templates.ErrPattern, ExitUsage},
	{templates.ErrTemplate, ExitUsage},
	{templates.ErrOverlap, ExitUsage},
	{templates.ErrNoTemplate, ExitNoTag},
	{tags.ErrNoMatch, ExitNoTag},
	{snowflake.ErrID, ExitUsage},
	{snowflake.ErrTime, ExitUsage},
	{messages.ErrNoTag, ExitNoTag},
	{store.ErrNoTag, ExitNoTag},
	{messages.ErrBusy, ExitTryLater},
	{messages.ErrUnavailable, ExitTryLater},
	{verify.ErrWaiting, ExitTryLater},
	{nats.ErrNoResponders, ExitTryLater},
	{nats.ErrTimeout, ExitTryLater},
	{nats.ErrNoServers, ExitTryLater},
	{context.DeadlineExceeded, ExitTryLater},
	{messages.ErrExhausted, ExitExhausted},
}

// ExitCode is with which code an error ends the process.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return ExitUsage
	}
	var network *net.OpError // the database is away, unless it is about an address of our own
	if errors.As(err, &network) && network.Op != "listen" {
		return ExitTryLater
	}
	for _, e := range exits {
		if errors.Is(err, e.err) {
			return e.code
		}
	}
	return ExitFailure
}
