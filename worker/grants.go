package worker

import (
	"sync/atomic"

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
	firstUse *firstUseGate
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
		g.refused.Add(1)
		g.alloc.Refuse(grant.Tag, grant.Seq, store.ErrExhausted)
	case messages.CodeBusy:
		g.refuse(grant, g.firstUse.refused(grant.Tag, grant.Reason))
	default:
		g.install(grant)
	}
}

// refuse tells the allocator that there is no such tag, or shall be none.
func (g *grantReceiver) refuse(grant loads.Grant, err error) {
	g.refused.Add(1)
	if !g.alloc.RefuseFirstUse(grant.Tag, grant.Seq, err) {
		g.alloc.Refuse(grant.Tag, grant.Seq, err)
	}
}

func (g *grantReceiver) install(grant loads.Grant) {
	segment := store.Segment{First: grant.First, End: grant.End}
	// A worker never asks for more than maxStep. A longer segment is forged, and would
	// keep out all that come after it.
	var verdict allocator.Verdict
	if segment.Len() <= g.maxStep {
		verdict = g.alloc.Grant(grant.Tag, grant.Seq, segment)
	}
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
	default:
		g.burnt.Add(1)
	}
	g.log.Debug("segment burnt", zap.String("tag", grant.Tag), zap.Stringer("segment", segment))
}
