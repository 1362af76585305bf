package snowflake

import (
	"errors"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/vectors"
)

const vectorsFile = "../messages/testdata/vectors.json"

func TestLayoutsOfVectors(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range vectors.Read[struct {
		Name, Layout  string
		Epoch, End    time.Time
		MaxDatacenter int64 `json:"max_datacenter"`
		MaxWorker     int64 `json:"max_worker"`
		MaxSequence   int64 `json:"max_sequence"`
		Why           string
		IDs           []struct {
			ID                                      ID
			Time                                    time.Time
			Timestamp, Datacenter, Worker, Sequence int64
			Why                                     string
		}
	}](t, vectorsFile, "layouts") {
		l, err := ParseLayout(c.Layout)
		if err != nil || l.String() != c.Layout {
			t.Errorf("%s: %s became %v, %v", c.Why, c.Layout, l, err)
			continue
		}
		if c.Name != "" {
			names[c.Name] = true
			if named, err := ParseLayout(c.Name); err != nil || named != l {
				t.Errorf("%s: %s is %v, %v; want %v", c.Why, c.Name, named, err, l)
			}
		}
		if again, err := NewLayout(l.Spec()); err != nil || again != l {
			t.Errorf("%s: its own description makes %v, %v", c.Why, again, err)
		}
		if !l.TimeAt(0).Equal(c.Epoch) || !l.End().Equal(c.End) {
			t.Errorf("%s: %v to %v, want %v to %v", c.Why, l.TimeAt(0), l.End(), c.Epoch, c.End)
		}
		if l.MaxDatacenter() != c.MaxDatacenter || l.MaxWorkerID() != c.MaxWorker || l.MaxSequence() != c.MaxSequence {
			t.Errorf("%s: datacenters to %d, worker IDs to %d, sequences to %d", c.Why, l.MaxDatacenter(), l.MaxWorkerID(), l.MaxSequence())
		}
		for _, id := range c.IDs {
			if id.Why == "" {
				t.Errorf("%s: ID %d has no reason", c.Why, id.ID)
			}
			if at := l.Time(id.ID); !at.Equal(id.Time) || l.Timestamp(id.ID) != id.Timestamp {
				t.Errorf("%s, %s: time %v, timestamp %d", c.Why, id.Why, at, l.Timestamp(id.ID))
			}
			if l.Datacenter(id.ID) != id.Datacenter || l.WorkerID(id.ID) != id.Worker || l.Sequence(id.ID) != id.Sequence {
				t.Errorf("%s, %s: datacenter %d, worker %d, sequence %d", c.Why, id.Why, l.Datacenter(id.ID), l.WorkerID(id.ID), l.Sequence(id.ID))
			}
		}
	}
	if len(names) != len(LayoutNames()) {
		t.Errorf("layouts %v, want %v", names, LayoutNames())
	}
}

func TestBadLayoutsOfVectors(t *testing.T) {
	for _, c := range vectors.Read[struct {
		Layout     vectors.Bytes
		Error, Why string
	}](t, vectorsFile, "bad_layouts") {
		l, err := ParseLayout(string(c.Layout))
		if !errors.Is(err, ErrLayout) || !l.IsZero() || len(err.Error()) > 300 {
			t.Errorf("%s: %v, %v", c.Why, l, err)
		}
	}
}
