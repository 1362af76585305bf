package nemesis

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Fault is a fault of a schedule.
type Fault struct {
	Number int
	Begin  time.Duration // since the run began
	End    time.Duration // when it is mended
	Kind   string
	Victim string // of the cast, or the stream whose leader it is
	Size   int    // which of several steps, directions, servers or files
	Forget string // the kind of fault in which loaders forget meanwhile, or empty
}

func (f Fault) String() string {
	return fmt.Sprintf("%4d  %7.1fs  %4.1fs  %-18s %-22s %2d  %s", f.Number, f.Begin.Seconds(), (f.End - f.Begin).Seconds(), f.Kind, f.Victim, f.Size, f.Forget)
}

// A storm and the calm after it make a cycle. The faults of a storm are so
// dense that the cycle's average is a fault every 3 s.
const (
	storm = 36 * time.Second
	calm  = 15 * time.Second
	cycle = storm + calm
	every = 3 * time.Second
)

// kind is a kind of fault.
type kind struct {
	name     string
	weight   int           // relative frequency
	min, max time.Duration // duration
	victims  []string
	part     string   // of the victim; faults of the same part do not overlap
	stores   []string // with which it is possible; nil: all
	more     []string // parts that have to be free as well; VICTIM stands for whose it is
}

// The parts that faults affect. Links may be disturbed while the process at
// their end is paused, but a killed process cannot be paused. The servers are a
// single part: a majority of them fails only in faults made for that.
const (
	partProcess  = "process"
	partLink     = "link"
	partServers  = "servers"
	partDatabase = "database"
	partClock    = "clock"
)

var (
	workers   = []string{"worker1", "worker2", "worker3"}
	loaders   = []string{"loader1", "loader2"}
	enrichers = []string{"enricher1", "enricher2"}
	servers   = []string{"n1", "n2", "n3"}
	programs  = slices.Concat(workers, loaders, enrichers)
	linked    = slices.Concat(programs, []string{"callers"})
	routes    = []string{"n2-n1", "n3-n1", "n3-n2"}
	cut       = []string{"worker3", "loader2", "enricher2"} // behind cutters
	led       = []string{"KV_ids_register", "IDS_LOAD", "KV_ids_clock", "KV_ids_enrich", "READY", "ORDERS"}
	databases = []string{"mysql", "postgres"}
)

// remembering are the parts that are left alone from the beginning of a loss
// until an operator has decided. Once loaders forget, only the workers and
// loader1's witness remember what was lost. As loader2 keeps no witness, it may be
// killed, paused or cut off at any time.
var remembering = []string{
	"process worker1", "process worker2", "process worker3", "link worker1", "link worker2", "link worker3",
	"process loader1", "link loader1", "database database",
}

// damaged are the streams whose files are damaged, the register more often.
var damaged = []string{"KV_ids_register", "KV_ids_register", "KV_ids_clock", "KV_ids_config"}

// on makes victims of streams and of the servers that are meant.
func on(streams []string, which ...string) (victims []string) {
	for _, s := range streams {
		for _, w := range which {
			victims = append(victims, s+" on "+w)
		}
	}
	return victims
}

const ms = time.Millisecond

// kinds are all kinds of faults. Long pauses outlast requests (2 s), a turn of
// the enrichers, grants and reservations; the longest outlast the lease of a
// worker ID, too.
var kinds = []kind{
	{"kill", 12, 100 * ms, 5000 * ms, programs, partProcess, nil, nil},
	{"term", 8, 100 * ms, 4000 * ms, programs, partProcess, nil, nil},
	{"pause", 6, 100 * ms, 3000 * ms, programs, partProcess, nil, nil},
	{"pause, long", 5, 6000 * ms, 15000 * ms, programs, partProcess, nil, nil},
	{"pause, longest", 3, 17000 * ms, 30000 * ms, programs, partProcess, nil, nil},
	{"little memory", 2, 5000 * ms, 15000 * ms, workers, partProcess, nil, nil},
	{"stutter", 3, 2000 * ms, 8000 * ms, programs, partProcess, nil, nil},
	{"clock step", 6, 2000 * ms, 15000 * ms, slices.Concat(programs, servers), partClock, nil, nil},
	{"clock rate", 3, 5000 * ms, 15000 * ms, programs, partClock, nil, nil},

	{"connections cut", 6, 100 * ms, 200 * ms, linked, partLink, nil, nil},
	{"cut off", 4, 500 * ms, 8000 * ms, linked, partLink, nil, nil},
	{"hears nothing", 4, 500 * ms, 8000 * ms, linked, partLink, nil, nil},
	{"says nothing", 4, 500 * ms, 8000 * ms, linked, partLink, nil, nil},
	{"slow link", 5, 2000 * ms, 10000 * ms, linked, partLink, nil, nil},
	{"narrow link", 2, 2000 * ms, 8000 * ms, linked, partLink, nil, nil},

	{"cut at a write", 6, 4000 * ms, 12000 * ms, cut, partLink, nil, nil},
	{"killed at a write", 6, 4000 * ms, 12000 * ms, cut, partLink, nil, []string{partProcess + " VICTIM"}},

	{"server killed", 4, 500 * ms, 6000 * ms, servers, partServers, nil, nil},
	{"leader killed", 6, 500 * ms, 6000 * ms, led, partServers, nil, nil},
	{"server stopped", 3, 500 * ms, 4000 * ms, servers, partServers, nil, nil},
	{"server frozen", 4, 500 * ms, 8000 * ms, servers, partServers, nil, nil},
	{"leader frozen", 4, 500 * ms, 8000 * ms, led, partServers, nil, nil},
	{"leader steps down", 6, 100 * ms, 200 * ms, led, partServers, nil, nil},
	{"majority away", 0, outageMin, outageMax, nil, partServers, nil, nil}, // only in a schedule of outages, as the next two
	{"pause, outage", 0, 45000 * ms, 150000 * ms, workers, partProcess, nil, nil},
	{"suspend", 0, 5000 * ms, 30000 * ms, workers, partProcess, nil, []string{partClock + " VICTIM"}},
	{"all servers killed", 2, 500 * ms, 3000 * ms, []string{"n1 n2 n3"}, partServers, nil, nil},
	{"server cut off", 5, 1000 * ms, 10000 * ms, servers, partServers, nil, nil},
	{"route silent", 4, 1000 * ms, 8000 * ms, routes, partServers, nil, nil},
	{"route one way", 4, 1000 * ms, 8000 * ms, routes, partServers, nil, nil},
	{"route slow", 4, 2000 * ms, 10000 * ms, routes, partServers, nil, nil},
	{"step-downs", 4, 2000 * ms, 6000 * ms, led, partServers, nil, nil},
	{"disk full", 3, 2000 * ms, 8000 * ms, servers, partServers, nil, nil},

	// JetStream may lose writes in these.
	{"register put back", 4, 3000 * ms, 8000 * ms, []string{"register"}, partServers, nil, remembering},
	{"block damaged", 8, 500 * ms, 4000 * ms, on(damaged, "one", "leader", "two"), partServers, nil, remembering},
	{"raft log damaged", 6, 500 * ms, 4000 * ms, on(damaged, "one", "two"), partServers, nil, remembering},
	{"snapshot damaged", 4, 500 * ms, 4000 * ms, on(damaged, "one", "two"), partServers, nil, remembering},
	{"meta damaged", 4, 500 * ms, 4000 * ms, on([]string{"_meta_"}, "one", "two"), partServers, nil, remembering},
	{"folder lost", 8, 500 * ms, 4000 * ms, on([]string{"stream", "raft", "all"}, "one", "each"), partServers, nil, remembering},
	{"folder old", 8, 6000 * ms, 12000 * ms, on([]string{"register"}, "one", "two", "two"), partServers, nil, remembering},
	{"power cut", 6, 500 * ms, 4000 * ms, []string{"n1", "n2", "n3", "n1 n2 n3", "n1 n2 n3"}, partServers, nil, remembering},
	{"replicas changed", 3, 3000 * ms, 8000 * ms, []string{"KV_ids_register"}, partServers, nil, remembering},
	{"server removed", 3, 3000 * ms, 8000 * ms, servers, partServers, nil, remembering},
	{loadersForget, 0, 200 * ms, 5000 * ms, nil, partProcess, nil, nil}, // only inside one of those above, as the next
	{allForget, 0, 200 * ms, 2000 * ms, nil, partProcess, nil, nil},

	{"database killed", 10, 200 * ms, 6000 * ms, []string{"database"}, partDatabase, databases, nil},
	{"database frozen", 10, 500 * ms, 8000 * ms, []string{"database"}, partDatabase, databases, nil},
	{"failover", 8, 3000 * ms, 8000 * ms, []string{"database"}, partDatabase, databases, nil},
	{"answers cut", 8, 1000 * ms, 6000 * ms, []string{"database"}, partDatabase, databases, nil},
	{"database cut off", 8, 500 * ms, 8000 * ms, []string{"database"}, partDatabase, databases, nil},
	{"database slow", 8, 2000 * ms, 8000 * ms, []string{"database"}, partDatabase, databases, nil},
}

// parts are those that a fault takes hold of.
func (k kind) parts(victim string) []string {
	all := []string{k.part + " " + victim}
	if k.part == partServers {
		all[0] = k.part
	}
	for _, m := range k.more {
		all = append(all, strings.ReplaceAll(m, "VICTIM", victim))
	}
	return all
}

// loses reports whether JetStream may lose writes in faults of a kind.
func (k kind) loses() bool { return k.part == partServers && k.more != nil }

// after is the rest for an affected part: an ended process is restarted, and
// the next fault finds it running. After a loss an operator decides.
func (k kind) after() time.Duration {
	if k.loses() {
		return 15 * time.Second
	}
	return time.Second
}

// The loaders are killed while writes are being lost, and started before an
// operator has decided. In the second kind the workers are killed as well, and a
// witness is all that is left.
const (
	loadersForget = "loaders forget"
	allForget     = "all forget"
)

// forgets are the kinds of forgetting that are selected.
func forgets(only *regexp.Regexp) []string {
	return slices.DeleteFunc([]string{loadersForget, loadersForget, allForget}, func(name string) bool { return !only.MatchString(name) })
}

// Faults is the schedule of a seed, without end: it is the same for the same
// seed, store and selection of faults, by name. Half of the storms begin with a
// loss, for which later nothing is free.
func Faults(seed uint64, store string, only *regexp.Regexp) iter.Seq[Fault] {
	possible := kindsFor(store, only)
	return func(yield func(Fault) bool) {
		random := rand.New(rand.NewPCG(seed, 14))
		number := 0
		for begin := time.Duration(0); len(possible) > 0; begin += cycle {
			s := storming{
				random: random, begin: begin, lasts: storm, gap: storm * 9 / 10 / time.Duration(int(cycle/every)),
				kinds: possible, forgets: forgets(only), busy: make(map[string]time.Duration),
			}
			if losing := slices.DeleteFunc(slices.Clone(possible), func(k kind) bool { return !k.loses() }); len(losing) > 0 && random.IntN(2) == 0 {
				s.draw(losing, begin+time.Duration(random.Int64N(int64(storm/2))))
			}
			for s.drawn < int(cycle/every) {
				s.next()
			}
			slices.SortStableFunc(s.faults, func(a, b Fault) int { return int(a.Begin - b.Begin) })
			for _, f := range s.faults {
				number++
				f.Number = number
				if !yield(f) {
					return
				}
			}
		}
	}
}

// A majority of the servers is away for this long, once in so long: half of the
// time. Other faults last until some time after it is back.
const (
	outageMin   = time.Minute
	outageMax   = 3 * time.Minute
	outageAfter = 15 * time.Second
	outageCycle = outageMin + outageMax
	outageEvery = 6 * time.Second
)

// outageKinds are the faults of a schedule of outages. A worker that ends in an
// outage begins only after it, and one whose clock jumps makes no IDs until then.
// So one worker has only faults that requests outlast: without snowflake IDs, the
// outage was too long.
func outageKinds() (all []kind) {
	several := workers[1:]
	for name, victims := range map[string][]string{
		"kill": workers[2:], "term": workers[2:], "suspend": several, "clock step": several, "clock rate": several,
		"pause": workers, "pause, long": several, "pause, longest": several, "pause, outage": several, "stutter": several,
		"connections cut": programs, "cut off": several, "hears nothing": several, "says nothing": several, "slow link": programs,
	} {
		k := kinds[kindNamed(name)]
		k.victims, k.weight = victims, max(k.weight, 3)
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b kind) int { return strings.Compare(a.name, b.name) })
	return all
}

func kindNamed(name string) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
}

// Outages is the part of a seed's schedule of outages that fits into a run.
func Outages(seed uint64, duration time.Duration) (all []Fault) {
	random := rand.New(rand.NewPCG(seed, 15))
	for begin := time.Duration(0); begin+outageCycle <= duration; begin += outageCycle {
		length := outageMin + time.Duration(random.Int64N(int64(outageMax-outageMin)))
		survivor := random.IntN(len(servers))
		away := slices.Delete(slices.Clone(servers), survivor, survivor+1)
		s := storming{
			random: random, begin: begin, lasts: length + outageAfter, gap: outageEvery, kinds: outageKinds(), busy: make(map[string]time.Duration),
			faults: []Fault{{Begin: begin, End: begin + length, Kind: "majority away", Victim: strings.Join(away, " ")}}, drawn: 1,
		}
		for s.gap*time.Duration(s.drawn+4) < s.lasts {
			s.next()
		}
		slices.SortStableFunc(s.faults, func(a, b Fault) int { return int(a.Begin - b.Begin) })
		for _, f := range s.faults {
			f.Number = len(all) + 1
			all = append(all, f)
		}
	}
	return all
}

// kindsFor are the kinds that are possible with a store, and selected.
func kindsFor(store string, only *regexp.Regexp) (possible []kind) {
	for _, k := range kinds {
		if k.weight > 0 && (k.stores == nil || slices.Contains(k.stores, store)) && only.MatchString(k.name) {
			possible = append(possible, k)
		}
	}
	return possible
}

// storming makes the faults of a storm.
type storming struct {
	random  *rand.Rand
	begin   time.Duration
	lasts   time.Duration
	gap     time.Duration // between two faults
	kinds   []kind
	forgets []string // kinds of forgetting, one of which may come with a loss
	faults  []Fault
	drawn   int                      // of which some found nothing free
	busy    map[string]time.Duration // until when, by part and victim
}

// draws bounds the search for a fault whose victim is free.
const draws = 300

// next draws the next fault.
func (s *storming) next() {
	s.draw(s.kinds, s.begin+s.gap*time.Duration(s.drawn)+time.Duration(s.random.Int64N(int64(2*s.gap))))
}

// draw adds a fault of one of several kinds that begins at a time, and whose
// victim is free then. If few kinds are selected, there may be none.
func (s *storming) draw(among []kind, at time.Duration) {
	s.drawn++
	for range draws {
		k := s.pick(among)
		victim := k.victims[s.random.IntN(len(k.victims))]
		end := at + k.min + time.Duration(s.random.Int64N(int64(k.max-k.min)))
		end = min(end, s.begin+s.lasts)
		parts := k.parts(victim)
		if end-at < k.min || slices.ContainsFunc(parts, func(p string) bool { return at < s.busy[p] }) {
			continue
		}
		for _, p := range parts {
			s.busy[p] = end + k.after()
		}
		f := Fault{Begin: at, End: end, Kind: k.name, Victim: victim, Size: s.random.IntN(100)}
		if k.loses() && len(s.forgets) > 0 && s.random.IntN(3) > 0 {
			if f.Forget = s.forgets[s.random.IntN(len(s.forgets))]; f.Forget == allForget && !lossIsOld(k.name) {
				f.Forget = ""
			}
		}
		s.faults = append(s.faults, f)
		return
	}
}

// lossIsOld reports whether what is lost in faults of a kind is older than a
// second, so that a witness shows it.
func lossIsOld(name string) bool { return name == "folder old" || name == "register put back" }

func (s *storming) pick(among []kind) kind {
	sum := 0
	for _, k := range among {
		sum += k.weight
	}
	n := s.random.IntN(sum)
	for _, k := range among {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	panic("weights")
}

// Schedule is the part of a seed's faults that fits into a run: whole storms,
// or, in a run shorter than a storm, the faults that end in time.
func Schedule(seed uint64, store string, only *regexp.Regexp, duration time.Duration) (all []Fault) {
	for f := range Faults(seed, store, only) {
		if f.Begin >= duration {
			return all
		}
		if f.End+calm <= duration {
			all = append(all, f)
		}
	}
	return all
}

// Table is the schedule as text.
func Table(all []Fault) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}
