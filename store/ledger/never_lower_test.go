package ledger_test

import (
	"errors"
	"testing"

	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/testing/natstest"
)

// Raise to less than is known changes neither the ledger nor the store.
func TestRaiseNeverLowers(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	inner := table(t, srv, "t")
	s := i.loader(inner, ledger.Require)
	create(t, s, "order", 1)
	for _, next := range []int64{50, 20} {
		if err := s.Raise(t.Context(), "order", next); err != nil {
			t.Fatal(err)
		}
	}
	if have := i.high("order"); have != `{"high":50}` || next(t, inner, "order") != 50 {
		t.Errorf("the ledger says %s, the store %d, want that both stay at 50", have, next(t, inner, "order"))
	}
}

// A ledger with an identity of its own, as one that was brought along from elsewhere, is not the one
// that the installation has completed.
func TestLedgerFromElsewhere(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	inner := table(t, srv, "t")
	create(t, inner, "order", 1)
	fill(t, i.loader(inner, ledger.Require))
	if err := i.js().DeleteKeyValue(t.Context(), ledger.BucketName(i.prefix)); err != nil {
		t.Fatal(err)
	}
	natstest.CreateBucket(t, i.js(), ledger.BucketName(i.prefix))
	if _, err := i.bucket().Put(t.Context(), "=id", []byte("another")); err != nil {
		t.Fatal(err)
	}
	if seg, err := i.loader(inner, ledger.Require).Reserve(t.Context(), "order", 10); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("Reserve: %v, %v, want that the ledger is lost", seg, err)
	}
}
