package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/worker/history"
)

// lostInstallation is an installation whose data is lost, with a backup of its
// youth.
type lostInstallation struct {
	settings          // name the store
	backup   string   // a folder
	young    string   // the NATS server's data when the backup was taken
	latest   string   // the same when it was lost
	strict   []string // tags; the backup lacks the last two, which templates made
	began    time.Time
	calls    []history.Call // until the loss
	faults   []string       // that doctor found until then
	saved    savedSettings
}

// savedSettings are what a backup has of the buckets, by key.
type savedSettings struct {
	Config      map[string]string `json:"config"`
	Enrichments map[string]string `json:"enrichments"`
}

// listBackedUp are the tags and templates of the backup, as tag import reads
// them.
const listBackedUp = `chat.* 10 strict 0 1000 1
day.* 10 strict 0 1000 1 yyyyMMdd 172800
invoice 10 1 strict
old removed 500
order 1000 1
`

// loseInstallation runs an installation, takes a backup, and grants more.
func loseInstallation(t *testing.T, store settings) *lostInstallation {
	t.Helper()
	s := startRaiseSite(t, store)
	l := &lostInstallation{
		settings: store, backup: filepath.Join(t.TempDir(), "backup"), young: t.TempDir(), latest: s.data, began: s.began,
		strict: []string{"invoice", "chat.1", s.began.UTC().Format("day.20060102"), "chat.2", s.began.UTC().AddDate(0, 0, 1).Format("day.20060102")},
	}
	at := func(args ...string) []string { return append(args, "--server", s.net.URL()) }
	s.mustRun(t, at("provision")...)
	settings{stdin: listBackedUp, env: s.env}.mustRun(t, at("tag", "import")...)
	records, err := s.js.KeyValue(t.Context(), "ids_enrich")
	for _, key := range []string{"A", "B"} {
		if err == nil {
			_, err = records.PutString(t.Context(), key, "{}")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	worker := s.startWorkers(1)[0]
	s.eachServed(t, append(l.strict[:3:3], "order")...)
	s.mustRun(t, at("backup", l.backup)...)
	s.copyData(t, l.young, s.data)
	s.eachServed(t, append(l.strict, "order")...)
	l.faults = s.doctorFaults(t, s.net.URL())
	for _, p := range []*process{worker, s.loader} {
		p.kill()
	}
	s.net.Stop()
	l.calls = s.calls
	text, err := os.ReadFile(filepath.Join(l.backup, "backup.json"))
	if err == nil {
		err = json.Unmarshal(text, &l.saved)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// killedSite is such an installation after the loss. Its restore is killed, and
// run again.
type killedSite struct {
	*raiseSite
	lost   *lostInstallation
	far    *proxy.Proxy // between the worker and the server
	worker *process     // has run through the loss, with a buffer of the tag order
	want   savedSettings
}

// site starts a server, and a worker that runs when the server loses its data.
// Other data, or none, takes its place.
func (l *lostInstallation) site(t *testing.T, data string) *killedSite {
	t.Helper()
	s := newRaiseSite(t, l.settings)
	s.began, s.calls = l.began, slices.Clone(l.calls)
	s.copyData(t, s.data, l.latest)
	far := proxy.Start(t, s.net.URL())
	worker := settings{}.launch(t, "serve", "--server", far.URL(), "--role", "worker", "--wait", "500ms")
	s.startLoader()
	worker.serving()
	s.heldByAll(t, []*process{worker}, "order")
	s.loader.kill()
	s.copyData(t, s.data, data)
	s.answer(t, worker)
	want := savedSettings{maps.Clone(l.saved.Config), maps.Clone(l.saved.Enrichments)}
	return &killedSite{raiseSite: s, lost: l, far: far, worker: worker, want: want}
}

// restore is the command, by way of a server's address.
func (s *killedSite) restore(url string) []string {
	return []string{"restore", s.lost.backup, "--yes", "--server", url}
}

// killed runs the restore, and kills it before it sends a text to NATS.
func (s *killedSite) killed(t *testing.T, text string) {
	t.Helper()
	via := proxy.Start(t, s.net.URL())
	s.killBefore(t, via, text, s.restore(via.URL())...)
}

// intrude is what happens meanwhile: a deployment job creates a tag that was
// lost, a supervisor starts a loader, and callers ask. All of it may fail.
func (s *killedSite) intrude(t *testing.T) {
	t.Helper()
	s.run(t, "tag", "create", "--if-missing", "invoice", "--order", "strict", "--step", "10", "--server", s.net.URL())
	s.loader = s.launch(t, "serve", "--server", s.net.URL(), "--role", "loader")
	s.loader.servesOrEnds()
	s.askOnce(t, append(s.lost.strict, "order")...)
}

// askOnce requests an ID of each tag, which may fail.
func (s *killedSite) askOnce(t *testing.T, tags ...string) {
	t.Helper()
	client := s.dial(t)
	var asked sync.WaitGroup
	for _, tag := range tags {
		asked.Go(func() { _, _ = s.request(client, tag, 1, time.Second) })
	}
	asked.Wait()
}

// writeRecord writes a record, as an enricher does.
func (s *killedSite) writeRecord(t *testing.T, key string) {
	t.Helper()
	bucket, err := s.js.KeyValue(t.Context(), "ids_enrich")
	if err == nil {
		_, err = bucket.PutString(t.Context(), key, s.want.Enrichments[key])
	}
	if err != nil {
		t.Fatal(err)
	}
}

// allowWorkers does what the restore orders to do before workers start, but for
// the wait, which protects snowflake IDs.
func (s *killedSite) allowWorkers(t *testing.T) {
	t.Helper()
	const key = "clock_id"
	bucket, err := s.js.KeyValue(t.Context(), "ids_config")
	if err == nil {
		err = bucket.Delete(t.Context(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(s.want.Config, key)
}

// again runs the restore again, which has to succeed.
func (s *killedSite) again(t *testing.T) {
	t.Helper()
	s.mustRun(t, s.restore(s.net.URL())...)
	s.succeed(t)
}

// eachServed waits until each tag was served some times.
func (s *judged) eachServed(t *testing.T, tags ...string) {
	t.Helper()
	client := s.dial(t)
	for _, tag := range tags {
		for range 5 {
			natstest.Eventually(t, "tag "+tag+" is served", func() bool {
				_, err := s.request(client, tag, 1, askAgain)
				return err == nil
			})
		}
	}
}

// whole checks that the installation is what the backup says, that all of its
// tags are served, and that no ID comes twice or out of order.
func (s *killedSite) whole(t *testing.T) {
	t.Helper()
	if s.loader.hasEnded() {
		s.startLoader()
	}
	s.eachServed(t, append(s.lost.strict, "order", "chat.new")...)
	var issued order.Ledger
	var ordered []history.Call
	for _, c := range s.calls {
		issued.Add(c.Tag, c.Count, c.Ranges...)
		if slices.Contains(s.lost.strict, c.Tag) {
			ordered = append(ordered, c)
		}
	}
	issued.Check(t)
	if err := order.Check(ordered); err != nil {
		t.Error(err)
	}
	s.check(t)

	lacks(t, backedUp(t, s.lost.backup), s.mustRun(t, "tag", "export", "--server", s.net.URL()).stdout)
	for bucket, want := range map[string]map[string]string{"ids_config": s.want.Config, "ids_enrich": s.want.Enrichments} {
		kv, err := s.js.KeyValue(t.Context(), bucket)
		if err != nil {
			t.Fatalf("bucket %s: %v", bucket, err)
		}
		for key, value := range want {
			if e, err := kv.Get(t.Context(), key); err != nil || key != "templates" && string(e.Value()) != value {
				t.Errorf("bucket %s, key %s: %v, want %q", bucket, key, err, value)
			}
		}
	}
	for _, fault := range s.doctorFaults(t, s.net.URL()) {
		if !slices.Contains(s.lost.faults, fault) && !strings.Contains(fault, "clock bucket was replaced or restored") {
			t.Errorf("doctor: %s", fault)
		}
	}
}

// doctorFaults are the faults that doctor finds.
func (s settings) doctorFaults(t *testing.T, url string) []string {
	t.Helper()
	lines := s.run(t, "doctor", "--server", url).lines()
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "FAIL") })
}

// backedUp is a backup's list of tags.
func backedUp(t *testing.T, backup string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(backup, "tags.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lacks fails the test for tags and templates of a list that an installation's
// list lacks.
func lacks(t *testing.T, want, list string) {
	t.Helper()
	here := shapes(list)
	for _, line := range shapes(want) {
		if !slices.Contains(here, line) {
			t.Errorf("missing is %q, there is only:\n%s", line, strings.Join(here, "\n"))
		}
	}
}

// shapes are the lines of a list of tags, apart from their next IDs.
func shapes(list string) (lines []string) {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if !strings.Contains(f[0], "*") {
			f[2] = "N"
		}
		lines = append(lines, strings.Join(f, " "))
	}
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "floor ") })
}

// TestRestoreKilled: all data is lost, or some of it and the rest is old. The
// restore is killed at some moment, and run again. Meanwhile a deployment job and
// a supervisor do what they should not. The second run puts everything back,
// nothing from before the decision is handed out after it, no ID comes twice, and
// strict tags' IDs ascend.
func TestRestoreKilled(t *testing.T) {
	t.Parallel()
	l, nothing := loseInstallation(t, settings{}), t.TempDir()
	var moments sync.WaitGroup // all at once, because they mostly wait: a raise takes 5 s
	at := func(moment string, test func(*testing.T)) {
		moments.Go(func() { t.Run(moment, test) })
	}
	for moment, before := range map[string]string{
		"settings":  "PUB $KV.ids_config.layout ",
		"create":    "PUB $JS.API.STREAM.UPDATE.KV_ids_register ",
		"entries":   "PUB $KV.ids_register.invoice ",
		"templates": "PUB $KV.ids_config.templates ",
		"decide":    `"idworker_decided"`,
		"clock":     "PUB $JS.API.STREAM.CREATE.KV_ids_clock ",
	} {
		at(moment, func(t *testing.T) {
			s := l.site(t, nothing)
			s.killed(t, before)
			s.intrude(t)
			s.again(t)
			s.whole(t)
		})
	}
	at("mark", func(t *testing.T) { // all that is left is old, and only the records are missing
		s := l.site(t, l.young)
		if err := s.js.DeleteStream(t.Context(), enrichBucket); err != nil {
			t.Fatal(err)
		}
		s.killed(t, "PUB $JS.API.STREAM.UPDATE.KV_ids_register ")
		s.again(t)
		s.whole(t)
	})
	at("rows", func(t *testing.T) {
		db := mariaDB(t)
		s := loseInstallation(t, on(db.DSN())).site(t, nothing)
		db.Exec(t, "DELETE FROM leaf_alloc")
		via := proxy.Start(t, db.Addr())
		on(db.DSNVia(via)).killBefore(t, via, "INSERT INTO", s.restore(s.net.URL())...)
		s.intrude(t)
		s.again(t)
		s.whole(t)
	})
	at("records", func(t *testing.T) {
		s := l.site(t, nothing)
		s.killed(t, "PUB $KV.ids_enrich.B ")
		s.want.Enrichments["A"] = "an enricher goes on"
		s.writeRecord(t, "A")
		s.again(t)
		s.whole(t)
	})
	for moment, away := range map[string]bool{"follow": false, "cut-off": true} {
		at(moment, func(t *testing.T) {
			s := l.site(t, nothing)
			if away {
				s.far.Refuse()
			}
			s.killed(t, "PUB $KV.ids_config.decided ")
			s.again(t)
			if away {
				s.far.Accept()
				s.answer(t, s.worker)
			}
			s.askOnce(t, "order") // no loader runs, so an answer is from memory
			s.whole(t)
		})
	}
	at("again", func(t *testing.T) { // the data is lost once more, and with it all that knows of the first restore
		s := l.site(t, nothing)
		s.again(t)
		s.whole(t)
		s.loader.kill()
		s.worker.kill()
		s.copyData(t, s.data, nothing)
		s.killed(t, "PUB $JS.API.STREAM.UPDATE.KV_ids_register ")
		s.again(t)
		s.allowWorkers(t)
		s.startWorkers(1)
		s.whole(t)
	})
	moments.Wait()
}
