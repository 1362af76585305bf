package ledger_test

import (
	"testing"
	"time"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/testing/natstest"
)

// TestLedgerDeletedUnderALoader: the way out that the hint and docs/operations.md name, to raise
// and to delete the mark, is one also while a loader runs.
func TestLedgerDeletedUnderALoader(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	tab := table(t, srv, "old")
	create(t, tab, "order", 1)
	s := i.loader(tab, ledger.Require)
	fill(t, s)
	expect(t, s, "order", 1)
	if err := i.js().DeleteKeyValue(t.Context(), ledger.BucketName(i.prefix)); err != nil {
		t.Fatal(err)
	}
	reserve := func() error {
		ctx, cancel := timeout(t, 3*time.Second)
		defer cancel()
		_, err := s.Reserve(ctx, "order", 10)
		return err
	}
	if err := reserve(); err == nil {
		t.Error("granted without a ledger")
	}
	if err := i.loader(tab, ledger.Require).Raise(t.Context(), "order", 1000); err != nil {
		t.Fatal(err)
	}
	kv, err := i.js().KeyValue(t.Context(), agreement.BucketName(i.prefix))
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), ledger.ConfigKey); err != nil {
		t.Fatal(err)
	}
	fill(t, s) // as Keep does, once a minute
	if err := reserve(); err != nil {
		t.Errorf("after the ledger was filled again: %v", err)
	}
}
