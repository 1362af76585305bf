package main

import (
	"context"
	"errors"
	"net"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/tags"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

// The exit codes, as the README lists them.
const (
	exitOK        = 0
	exitFailure   = 1   // anything else
	exitUsage     = 2   // the command line or the request is malformed; trying again is no use
	exitNoTag     = 3   // there is no such tag
	exitTryLater  = 4   // no IDs now, or nobody to ask
	exitExhausted = 5   // the tag's numbers are used up
	exitInterrupt = 130 // a signal ended it before it was done
)

// usageError is an error in the command line.
type usageError struct{ error }

// exits says with which code an error ends the process.
var exits = []struct {
	err  error
	code int
}{
	{context.Canceled, exitInterrupt},
	{messages.ErrMalformed, exitUsage},
	{messages.ErrTag, exitUsage},
	{messages.ErrCount, exitUsage},
	{messages.ErrPrefix, exitUsage},
	{worker.ErrConfig, exitUsage},
	{agreement.ErrForeignStore, exitUsage},
	{enrich.ErrConfig, exitUsage},
	{store.ErrBadTag, exitUsage},
	{tags.ErrFormat, exitUsage},
	{snowflake.ErrID, exitUsage},
	{messages.ErrNoTag, exitNoTag},
	{store.ErrNoTag, exitNoTag},
	{messages.ErrBusy, exitTryLater},
	{messages.ErrUnavailable, exitTryLater},
	{nats.ErrNoResponders, exitTryLater},
	{nats.ErrTimeout, exitTryLater},
	{nats.ErrNoServers, exitTryLater},
	{context.DeadlineExceeded, exitTryLater},
	{messages.ErrExhausted, exitExhausted},
}

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	var network *net.OpError // the database is away, unless it is about an address of our own
	if errors.As(err, &network) && network.Op != "listen" {
		return exitTryLater
	}
	for _, e := range exits {
		if errors.Is(err, e.err) {
			return e.code
		}
	}
	return exitFailure
}
