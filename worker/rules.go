package worker

import (
	"context"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/tagrules"
)

// rules keeps what the process knows of tags besides their steps: the order of each, and the
// templates. It starts before the other halves, and stops after them.
type rules struct {
	watcher    *tagrules.Watcher
	log        *zap.Logger
	background *goroutines
}

func newRules(p processInfo) *rules { return &rules{p.rules, p.cfg.Log, newGoroutines()} }

// start returns when all rules are known that had been written before.
func (r *rules) start(ctx context.Context) error {
	if err := patiently(ctx, r.log, r.watcher.Start); err != nil {
		return err
	}
	r.background.start(r.watcher.Run)
	return nil
}

func (r *rules) stop() error {
	r.background.stop()
	return nil
}

func (r *rules) ready() error       { return nil } // what was read before stays
func (r *rules) collect(sink)       {}
func (r *rules) fillStats(_ *Stats) {}
