package worker

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// grantReceiver receives the grants that loaders send to this process, and installs their
// segments.
type grantReceiver struct {
	alloc    *allocator.Allocator
	instance string
	answered func(tag string, seq uint64) // is told of each
	maxStep  int64
	foreign  *foreignMessages
	log      *zap.Logger

	installed, burnt, below, refused atomic.Int64
}

// receive handles a message on the process's grant subject.
func (g *grantReceiver) receive(msg *nats.Msg) {
	grant, err := loads.DecodeGrant(msg.Data)
	if err != nil {
		g.log.Warn("grant ignored", zap.Error(err))
		return
	}
	if grant.Instance != g.instance {
		g.log.Warn("grant for another process ignored", zap.String("instance", grant.Instance))
		return
	}
	if g.foreign.drop(foreignGrant, grant.Installation, "") {
		return
	}
	defer g.answered(grant.Tag, grant.Seq)
	switch grant.Refused {
	case messages.CodeNoTag:
		g.refuse(grant, store.ErrNoTag)
	case messages.CodeExhausted:
		g.refuse(grant, store.ErrExhausted)
	case messages.CodeBusy:
		err := &noNewTagError{cmp.Or(grant.Reason, errNoNewTag.Error())}
		if grant.Pause > 0 {
			g.alloc.RefuseUnknown(err, time.Duration(grant.Pause)*time.Millisecond)
		}
		g.refuse(grant, err)
	case messages.CodeUnavailable:
		g.refuse(grant, fmt.Errorf("the tag cannot be granted: %s", cmp.Or(grant.Reason, "no reason given")))
	default:
		g.install(grant)
	}
}

// noNewTagError is an errNoNewTag in a loader's words.
type noNewTagError struct{ reason string }

func (e *noNewTagError) Error() string { return e.reason }

// Unwrap makes it an errNoNewTag.
func (e *noNewTagError) Unwrap() error { return errNoNewTag }

func (g *grantReceiver) refuse(grant loads.Grant, err error) {
	g.refused.Add(1)
	g.alloc.Refuse(grant.Tag, grant.Seq, err)
}

// drop handles a message that says that a tag was removed.
func (g *grantReceiver) drop(msg *nats.Msg) { g.alloc.Remove(string(msg.Data)) }

func (g *grantReceiver) install(grant loads.Grant) {
	// Where the loader decides, it may be of a configuration with a larger step.
	segment, _ := store.Segment{First: grant.First, End: grant.End}.Cut(min(grant.End-grant.First, g.maxStep))
	verdict := g.alloc.Grant(grant.Tag, grant.Seq, allocator.Supply{Segment: segment, Step: grant.Step, Order: grant.Order})
	switch verdict.Outcome {
	case allocator.Used:
		g.installed.Add(1)
		return
	case allocator.Below:
		g.below.Add(1)
		if verdict.FirstBelow {
			g.log.Error("store regressed: range below an earlier grant; discarded",
				zap.String("tag", grant.Tag), zap.Stringer("segment", segment), zap.Int64("granted up to", verdict.Above))
		}
	case allocator.OtherOrder:
		g.burnt.Add(1)
		g.log.Error("tag has another order than before; what was in memory is discarded",
			zap.String("tag", grant.Tag), zap.String("order", string(grant.Order)))
	default:
		g.burnt.Add(1)
	}
	g.log.Debug("segment burnt", zap.String("tag", grant.Tag), zap.Stringer("segment", segment))
}
