package worker

import (
	"context"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
)

// lateRule are owners among whom a process appears at the moment in which somebody has written a
// rule, and found nobody who would have to act upon it.
type lateRule struct {
	fakeOwners
	write func(context.Context) error
	run   func()
}

func (l *lateRule) Start(ctx context.Context) error {
	defer l.run()
	return l.write(ctx)
}

// TestRulesAreReadAfterTheLease: a rule that was written after a process had read the rules, and
// before it could be seen, is known when the process begins to answer.
func TestRulesAreReadAfterTheLease(t *testing.T) {
	t.Parallel()
	_, js := partNet(t)
	editor, err := tagrules.OpenEditor(t.Context(), js, messages.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	net := js.Conn()
	cfg := Config{Requests: net, Control: net, Log: zaptest.NewLogger(t)}.WithDefaults()
	info := processInfo{cfg: cfg, instance: "late", js: js, rules: tagrules.NewWatcher(js, cfg.Prefix, cfg.Log)}
	s := newStrict(info, nil, new(requestFigures))
	info.rules.Changed = nil // there is no allocator
	if err := info.rules.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	background := newGoroutines()
	defer background.stop()
	s.owners = &lateRule{
		write: func(ctx context.Context) error {
			_, err := editor.SetOrder(ctx, "new", tagrules.Strict)
			return err
		},
		run: func() { background.start(info.rules.Run) },
	}
	err = s.start(t.Context(), background)
	known := s.isStrict("new")
	if err != nil {
		t.Fatal(err)
	}
	if !known {
		t.Error("the process answers, and does not know that a tag is strict")
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
