package recovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/backup"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// generated is an installation of which anything may have been lost, changed by
// hand, or made again since its backup.
type generated struct {
	*installation
	*rand.Rand

	db     *dbtest.DB // nil without a table
	backup *backup.Backup
	held   map[string]int64 // by fake workers
}

// kept is an entry of the register as it is stored.
type kept struct {
	Next    int64       `json:"next"`
	Step    int64       `json:"step,omitempty"`
	Order   store.Order `json:"order,omitempty"`
	Removed bool        `json:"removed,omitempty"`

	data string // "": deleted by hand
}

// readable reports whether there is an entry, and not just what is left of one.
func (k kept) readable() bool { return k.Next > 0 }

func (k kept) order() store.Order {
	if k.Order == "" {
		return store.Trend
	}
	return k.Order
}

// row is a row of the table.
type row struct{ next, step int64 }

// generate makes an installation whose tags fit together well enough for an
// import, or not.
func generate(t *testing.T, rng *rand.Rand, table, fits bool) *generated {
	t.Helper()
	o := options{alone: true, record: "first"}
	g := &generated{Rand: rng, held: make(map[string]int64)}
	if table {
		g.db = dbtest.Postgres(t)
		g.db.Exec(t, "CREATE TABLE leaf_alloc (biz_tag VARCHAR(128) NOT NULL PRIMARY KEY, max_id BIGINT NOT NULL DEFAULT 1, step INT NOT NULL)")
		var err error
		o.source, err = backend.Parse(g.db.DSN(), "leaf_alloc")
		must(t, err)
	}
	g.installation = newInstallation(t, o)
	g.makeTemplates()
	g.backup = g.installation.backup()
	g.backup.Taken = time.Now().Add(-time.Duration(rng.Int64N(int64(48 * time.Hour))))
	g.backup.List.Tags = nil
	for n := range 40 {
		name := []string{"t.%d", "chat.%d", "day.202611%02d"}[n%3]
		g.generateTag(fmt.Sprintf(name, n), fits)
	}
	slices.SortFunc(g.backup.List.Tags, byName)
	if table && !fits {
		for _, name := range []string{"not a tag", "tag*"} {
			g.db.Exec(t, fmt.Sprintf("INSERT INTO leaf_alloc VALUES ('%s', 77, 10)", name))
		}
	}
	return g
}

// chance is true with a probability.
func (g *generated) chance(p float64) bool { return g.Float64() < p }

// next returns a number of any size, the larger ones near something that is
// special about them.
func (g *generated) next() int64 {
	near := []int64{1, 1 << 31, 1 << 53, time.Now().UnixMicro(), time.Now().UnixMicro() + 2*register.Slack, 2e18}[g.IntN(6)]
	return max(1, near+g.Int64N(2000)-1000)
}

func (g *generated) order() store.Order {
	return []store.Order{store.Trend, store.Strict}[g.IntN(2)]
}

func (g *generated) makeTemplates() {
	g.Helper()
	for _, t := range []templates.Template{
		{Pattern: "day.*", Step: 10, Order: store.Trend, First: g.next(), Dates: templates.Dates{Dated: "yyyyMMdd", Ahead: 86400}},
		{Pattern: "chat.*", Step: 20, Order: store.Strict, First: g.next()},
	} {
		must(g.T, templates.Create(g.Context(), g.js, prefix, t))
	}
}

// generateTag makes the entry, the row, the tag in the backup, and the buffers of
// a name: some of them, and each as if it came from another time.
func (g *generated) generateTag(name string, fits bool) {
	g.Helper()
	next, step, order := g.next(), 1+g.Int64N(1000), g.order()
	around := func() int64 { return max(1, next+g.Int64N(5000)-2500) }
	other := func() store.Order {
		if !fits && g.chance(.2) {
			return g.order()
		}
		return order
	}
	e := kept{Next: around(), Step: step, Order: other(), Removed: g.chance(.2)}
	if e.Order == store.Trend {
		e.Order = ""
	}
	hasRow := g.db != nil && g.chance(.7)
	if g.db != nil {
		if e.Step = 0; hasRow && g.chance(.9) {
			e.Removed = false
		}
	}
	if g.chance(.1) {
		e.Next = math.MaxInt64 - g.Int64N(2)
	}
	data, err := json.Marshal(e)
	must(g.T, err)
	switch made := g.Float64(); {
	case made < .7:
		g.put(name, data)
	case made < .75 && !fits:
		g.put(name, []byte("a guess"))
	case made < .8 && !fits:
		g.put(name, data)
		g.delete(register.BucketName(prefix), name)
	default:
		if hasRow { // which is trend then
			order = store.Trend
		}
	}
	if hasRow {
		g.db.Exec(g.T, fmt.Sprintf("INSERT INTO leaf_alloc VALUES ('%s', %d, %d)", name, around(), step))
	}
	if g.chance(.7) {
		tag := store.Tag{Name: name, Step: step, Next: around(), Order: other()}
		if g.chance(.2) {
			tag.Step = 0
		}
		g.backup.List.Tags = append(g.backup.List.Tags, tag)
	}
	if g.chance(.3) {
		g.held[name] = around()
	}
}

func (g *generated) put(name string, value []byte) {
	g.Helper()
	bucket, err := g.js.KeyValue(g.Context(), register.BucketName(prefix))
	must(g.T, err)
	_, err = bucket.Put(g.Context(), name, value)
	must(g.T, err)
}

// damage loses buckets, or parts of them.
func (g *generated) damage() {
	g.Helper()
	if g.chance(.2) {
		g.lose(register.BucketName(prefix))
	}
	switch g.IntN(4) {
	case 0:
		g.lose(agreement.BucketName(prefix))
	case 1:
		g.delete(agreement.BucketName(prefix), []string{register.ConfigKey, agreement.StoreKey, agreement.InstallationKey, templates.Key}[g.IntN(4)])
	}
	if g.chance(.3) {
		g.lose(enrich.BucketName(prefix))
	}
}

// beWorkers answers as workers do that hold segments of some tags.
func (g *generated) beWorkers() (stop func()) {
	g.Helper()
	reports := make([]worker.Report, 2)
	for n := range reports {
		reports[n] = worker.Report{Instance: fmt.Sprint("w", n), Host: "h", Role: worker.RoleWorker, Time: g.now(), Floor: 1, BufferFloor: 1}
		reports[n].Stats.Installation = g.id
	}
	for _, name := range slices.Sorted(maps.Keys(g.held)) {
		r, end := &reports[g.IntN(2)], g.held[name]
		stats := worker.TagStats{Tag: name, Order: string(g.order()), Configured: g.Int64N(2) * 50}
		stats.Use.High = end
		r.Stats.Tags = append(r.Stats.Tags, stats)
		if end < 1<<53 {
			r.Stats.Highest = max(r.Stats.Highest, end)
		}
	}
	return report(g.T, g.js.Conn(), func() []worker.Report { return reports })
}

// entries reads the register; it is empty if the register is missing.
func (g *generated) entries() map[string]kept {
	g.Helper()
	all := make(map[string]kept)
	stream := kv.StreamName(register.BucketName(prefix))
	if _, err := g.js.Stream(g.Context(), stream); err != nil {
		return all
	}
	subject := "$KV." + register.BucketName(prefix) + "."
	for _, msg := range natstest.ReadStream(g.T, g.js, stream, 1, subject+">") {
		k := kept{data: string(msg.Data())}
		_ = json.Unmarshal(msg.Data(), &k) // others have no next ID
		if msg.Headers().Get("KV-Operation") != "" {
			k = kept{}
		}
		all[strings.TrimPrefix(msg.Subject(), subject)] = k
	}
	return all
}

// rows reads the table.
func (g *generated) rows() map[string]row {
	g.Helper()
	all := make(map[string]row)
	if g.db == nil {
		return all
	}
	found, err := g.db.SQL().QueryContext(g.Context(), "SELECT biz_tag, max_id, step FROM leaf_alloc")
	must(g.T, err)
	defer func() { must(g.T, found.Close()) }()
	for found.Next() {
		name, r := "", row{}
		must(g.T, found.Scan(&name, &r.next, &r.step))
		all[name] = r
	}
	must(g.T, found.Err())
	return all
}

// wish returns what a command may ask for here.
func (g *generated) wish(kind string) Wish {
	switch kind {
	case "raise by a number":
		return Wish{By: 1 + g.Int64N(1e12)}
	case "raise some by a number":
		return Wish{Lifts: []register.Lift{{Pattern: "chat.*", By: 20000}, {Pattern: "t.>", By: 5}, {Pattern: "t.6", By: 50000}, {Pattern: "none.*", By: 1}}}
	case "restore":
		return Wish{Backup: g.backup}
	case "restore anyway":
		return Wish{Backup: g.backup, Anyway: true}
	case "import":
		return Wish{List: &tags.Listing{Tags: g.backup.List.Tags, Templates: templates.List{
			{Pattern: "chat.*", Step: 1, Order: store.Trend, First: g.next()}, {Pattern: "week.*", Step: 10, Order: store.Strict},
		}}}
	case "import with a floor":
		list := &tags.Listing{Floor: g.next(), Decided: g.backup.Taken}
		inBackup := make(map[string]store.Tag)
		for _, tag := range g.backup.List.Tags {
			inBackup[tag.Name] = tag
		}
		entries := g.entries()
		for _, name := range slices.Sorted(maps.Keys(entries)) { // one that is not listed may lack grants
			if _, found := inBackup[name]; !found {
				e := entries[name]
				inBackup[name] = store.Tag{Name: name, Next: max(1, e.Next-g.Int64N(100)), Step: e.Step, Order: e.order()}
			}
		}
		for _, tag := range inBackup {
			list.Tags = append(list.Tags, tag)
		}
		slices.SortFunc(list.Tags, byName)
		return Wish{List: list}
	}
	return Wish{}
}
