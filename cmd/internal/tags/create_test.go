package tags_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// setMetadata changes the metadata of the register's stream by hand.
func (i *installation) setMetadata(change func(map[string]string)) {
	i.Helper()
	stream, err := i.js.Stream(i.Context(), kv.StreamName(register.BucketName(prefix)))
	must(i.T, err)
	config := stream.CachedInfo().Config
	change(config.Metadata)
	_, err = i.js.UpdateStream(i.Context(), config)
	must(i.T, err)
}

// decidedAt sets the time of the latest decision.
func (i *installation) decidedAt(at time.Time) {
	i.Helper()
	i.setMetadata(func(meta map[string]string) {
		all := strings.Fields(meta["idworker_decisions"])
		meta["idworker_decided"] = all[len(all)-1] + " " + at.Format(time.RFC3339Nano)
	})
	i.open()
}

// TestCreateLowest: without a chosen first ID a tag begins above all IDs that a
// tag of that name may have issued, and is refused if none are left. An entry
// that was deleted by hand needs a chosen first ID.
func TestCreateLowest(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	creates := func(name string, want int64) {
		t.Helper()
		tag, err := i.tags.CreateLowest(t.Context(), store.Tag{Name: name, Step: 10})
		if err != nil || tag.Next != want {
			t.Errorf("%s begins at %d, %v, want %d", name, tag.Next, err, want)
		}
		found, err := i.tags.Find(t.Context(), name)
		if err != nil || found.Next != want {
			t.Errorf("%s is stored at %d, %v, want %d", name, found.Next, err, want)
		}
	}
	creates("new", 1)
	must(t, i.importText("low removed 5\nhigh removed 5000\nfull removed 9223372036854775800\n"))
	creates("low", 5)
	i.raise(1000)
	creates("other", 1001)
	creates("high", 6000)
	var below *store.BelowError
	if err := i.tags.Create(t.Context(), store.Tag{Name: "new.2", Step: 10, Next: 1}); !errors.As(err, &below) || below.Floor != 1001 {
		t.Errorf("from 1 on: %v, want that 1001 is the lowest", err)
	}
	if _, err := i.tags.CreateLowest(t.Context(), store.Tag{Name: "full", Step: 10}); !errors.As(err, &below) || below.Floor != math.MaxInt64 {
		t.Errorf("used up: %v", err)
	}
	if _, err := i.tags.CreateLowest(t.Context(), store.Tag{Name: "high", Step: 10}); !errors.Is(err, store.ErrTagExists) {
		t.Errorf("a tag that exists: %v", err)
	}
	lost := store.Tag{Name: "lost", Step: 10, Next: 5000} // it may have begun there
	if err := i.tags.Create(t.Context(), lost); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("above the lowest first ID: %v", err)
	}
	lost.Earliest = store.NeverUsed
	must(t, i.tags.Create(t.Context(), lost))
	bucket, err := i.js.KeyValue(t.Context(), register.BucketName(prefix))
	must(t, err)
	must(t, bucket.Delete(t.Context(), "other"))
	i.open()
	if tag, err := i.tags.CreateLowest(t.Context(), store.Tag{Name: "other", Step: 10}); !errors.Is(err, store.ErrBadTag) || errors.As(err, &below) {
		t.Errorf("deleted by hand: %+v, %v", tag, err)
	}
}

// TestCheckUnused: while the register is being raised, or a process reports
// that it regressed, no name counts as unused.
func TestCheckUnused(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	check := func(want error) {
		t.Helper()
		if heard, err := i.tags.CheckUnused(t.Context()); !heard || !errors.Is(err, want) {
			t.Errorf("%t, %v, want %v", heard, err, want)
		}
	}
	check(nil)
	i.setMetadata(func(meta map[string]string) { meta["idworker_raising"] = "x" })
	i.open()
	check(store.ErrRegressed)
	err := i.tags.Create(t.Context(), store.Tag{Name: "new", Step: 10, Next: 1, Earliest: store.NeverUsed})
	if !errors.Is(err, store.ErrRegressed) {
		t.Errorf("created while tags are raised: %v", err)
	}
	i.setMetadata(func(meta map[string]string) { delete(meta, "idworker_raising") })
	i.open()
	check(nil)

	stop := i.process(worker.Report{Stopped: "register regressed"})
	if heard, err := i.tags.CheckUnused(t.Context()); !heard || err == nil || !strings.Contains(err.Error(), "register regressed") {
		t.Errorf("beside a process that stopped: %t, %v", heard, err)
	}
	stop()
	i.process(worker.Report{})
	check(nil)
}

// TestCheckUnusedUnheard: a process that does not report is no evidence.
func TestCheckUnusedUnheard(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	conn := i.js.Conn()
	silent, err := conn.SubscribeSync(micro.APIPrefix + ".STATS." + worker.ProcessServiceName)
	must(t, err)
	must(t, conn.Flush())
	if heard, err := i.tags.CheckUnused(t.Context()); heard || err != nil {
		t.Errorf("%t, %v", heard, err)
	}
	must(t, silent.Unsubscribe())
}

// process answers requests for reports.
func (i *installation) process(report worker.Report) (stop func()) {
	i.Helper()
	data, err := json.Marshal(report)
	must(i.T, err)
	answer, err := json.Marshal(micro.Stats{
		ServiceIdentity: micro.ServiceIdentity{Name: worker.ProcessServiceName, ID: "x", Version: "0.2.0", Metadata: map[string]string{
			"prefix": string(prefix), "instance": "x", "installation": "y", "role": "loader", "created": time.Now().Format(time.RFC3339Nano),
		}},
		Endpoints: []*micro.EndpointStats{{Name: "x", Data: data}},
	})
	must(i.T, err)
	conn := i.js.Conn()
	sub, err := conn.Subscribe(micro.APIPrefix+".STATS."+worker.ProcessServiceName, func(msg *nats.Msg) { _ = msg.Respond(answer) })
	must(i.T, err)
	must(i.T, conn.Flush())
	return func() { must(i.T, sub.Unsubscribe()) }
}

// TestFloorOfAList: an export has the lowest first ID of a tag that it does not
// list, and the time of the decision; templates keep their own first IDs and
// dates.
func TestFloorOfAList(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	const listed = "day.* 10 strict 0 0 7 yyyyMMdd 86400\nfloor 10 2\n"
	must(t, i.importText(listed))
	if got := i.export(); got != listed {
		t.Errorf("before a decision:\n%s", got)
	}
	i.raise(1000)
	i.decidedAt(time.Date(2026, 11, 20, 15, 4, 5, 123456789, time.UTC))
	const raised = "floor 1001 2026-11-20T15:04:05.123456789Z\nday.* 10 strict 0 0 7 yyyyMMdd 86400\nfloor 10 1002\n"
	if got := i.export(); got != raised {
		t.Errorf("after a decision:\n%s", got)
	}
	all, err := tags.Parse(strings.NewReader(raised))
	must(t, err)
	want := templates.Template{Pattern: "day.*", Step: 10, Order: store.Strict, First: 7, Dates: templates.Dates{Dated: "yyyyMMdd", Ahead: 86400}}
	if all.Floor != 1001 || len(all.Tags) != 1 || all.Tags[0].Name != "floor" || len(all.Templates) != 1 || all.Templates[0] != want {
		t.Errorf("read as %+v", all)
	}
	var again bytes.Buffer
	if must(t, all.Text(&again)); again.String() != raised {
		t.Errorf("written again:\n%s", &again)
	}

	// Of a decision whose time is gone from the metadata, it is before now.
	i.setMetadata(func(meta map[string]string) { delete(meta, "idworker_decided") })
	i.open()
	before := time.Now()
	unknown, err := i.tags.Export(t.Context())
	if must(t, err); unknown.Decided.Before(before) {
		t.Errorf("decided %v, before %v", unknown.Decided, before)
	}
}

// TestSeveralFloors: of two lists in one file, the highest floor and the latest
// time count. A list may have only a floor.
func TestSeveralFloors(t *testing.T) {
	t.Parallel()
	const low, high = "floor 5 2026-11-21T00:00:00Z\n", "floor 6 2026-11-20T00:00:00Z\n"
	for _, text := range []string{low + high, high + low} {
		all, err := tags.Parse(strings.NewReader(text))
		if must(t, err); all.Floor != 6 || all.Decided.Format(time.DateOnly) != "2026-11-21" {
			t.Errorf("%q: %d, %v", text, all.Floor, all.Decided)
		}
	}
}

// TestExportDuringARaise: while tags are raised, and if they were raised during
// the export, there is no list.
func TestExportDuringARaise(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("order 10 1\n"))
	raised := func(want string) {
		t.Helper()
		all, err := i.tags.Export(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || len(all.Tags) > 0 {
			t.Errorf("%+v, %v, want %q", all, err, want)
		}
	}
	i.setMetadata(func(meta map[string]string) { meta["idworker_raising"] = "x" })
	raised("is being raised")
	i.setMetadata(func(meta map[string]string) { delete(meta, "idworker_raising") })
	i.open()
	before := i.tags
	i.raise(1000)
	i.tags = before
	raised("raised during the export")
	i.open()
	natstest.Eventually(t, "the export works", func() bool {
		_, err := i.tags.Export(context.WithoutCancel(t.Context()))
		return err == nil
	})
}
