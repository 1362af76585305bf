package nemesis

import (
	"fmt"
	"iter"
	"math/rand/v2"
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
	Size   int    // which of several steps or directions
}

func (f Fault) String() string {
	return fmt.Sprintf("%4d  %7.1fs  %4.1fs  %-18s %-16s %2d", f.Number, f.Begin.Seconds(), (f.End - f.Begin).Seconds(), f.Kind, f.Victim, f.Size)
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

// spared are the parts that have to be left alone while the register goes back:
// loaders have to live, and to have polled the register between the backup and
// the restore.
var spared = []string{"process loader1", "process loader2", "link loader1", "link loader2", "clock loader1", "clock loader2", "database database"}

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
	{"register put back", 4, 3000 * ms, 8000 * ms, []string{"register"}, partServers, nil, spared},
	{"disk full", 3, 2000 * ms, 8000 * ms, servers, partServers, nil, nil},

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

// after is the rest for an affected part: an ended process is restarted, and
// the next fault finds it running. Once the register is put back, an
// administrator raises all tags.
func (k kind) after() time.Duration {
	if k.part == partServers && k.more != nil {
		return 15 * time.Second
	}
	return time.Second
}

// Faults is the schedule of a seed, without end: it is the same for the same
// seed and store.
func Faults(seed uint64, store string) iter.Seq[Fault] {
	possible := kindsFor(store)
	return func(yield func(Fault) bool) {
		random := rand.New(rand.NewPCG(seed, 14))
		number := 0
		for begin := time.Duration(0); ; begin += cycle {
			s := storming{
				random: random, begin: begin, lasts: storm, gap: storm * 9 / 10 / time.Duration(int(cycle/every)),
				kinds: possible, busy: make(map[string]time.Duration),
			}
			for range int(cycle / every) {
				number++
				s.faults = append(s.faults, s.next())
			}
			slices.SortStableFunc(s.faults, func(a, b Fault) int { return int(a.Begin - b.Begin) })
			for i, f := range s.faults {
				f.Number = number - len(s.faults) + i + 1
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
			faults: []Fault{{Begin: begin, End: begin + length, Kind: "majority away", Victim: strings.Join(away, " ")}},
		}
		for s.gap*time.Duration(len(s.faults)+4) < s.lasts {
			s.faults = append(s.faults, s.next())
		}
		slices.SortStableFunc(s.faults, func(a, b Fault) int { return int(a.Begin - b.Begin) })
		for _, f := range s.faults {
			f.Number = len(all) + 1
			all = append(all, f)
		}
	}
	return all
}

// kindsFor are the kinds that are possible with a store.
func kindsFor(store string) (possible []kind) {
	for _, k := range kinds {
		if k.weight > 0 && (k.stores == nil || slices.Contains(k.stores, store)) {
			possible = append(possible, k)
		}
	}
	return possible
}

// storming makes the faults of a storm.
type storming struct {
	random *rand.Rand
	begin  time.Duration
	lasts  time.Duration
	gap    time.Duration // between two faults
	kinds  []kind
	faults []Fault
	busy   map[string]time.Duration // until when, by part and victim
}

// next is a fault whose victim is free. Some kind nearly always has a free
// victim; if the search takes long, the fault begins later.
func (s *storming) next() Fault {
	at := s.begin + s.gap*time.Duration(len(s.faults)) + time.Duration(s.random.Int64N(int64(2*s.gap)))
	for {
		k := s.pick()
		victim := k.victims[s.random.IntN(len(k.victims))]
		end := at + k.min + time.Duration(s.random.Int64N(int64(k.max-k.min)))
		end = min(end, s.begin+s.lasts)
		parts := k.parts(victim)
		if end-at >= k.min && !slices.ContainsFunc(parts, func(p string) bool { return at < s.busy[p] }) {
			for _, p := range parts {
				s.busy[p] = end + k.after()
			}
			return Fault{Begin: at, End: end, Kind: k.name, Victim: victim, Size: s.random.IntN(100)}
		}
	}
}

func (s *storming) pick() kind {
	sum := 0
	for _, k := range s.kinds {
		sum += k.weight
	}
	n := s.random.IntN(sum)
	for _, k := range s.kinds {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	panic("weights")
}

// Schedule is the part of a seed's faults that fits into a run: whole storms,
// or, in a run shorter than a storm, the faults that end in time.
func Schedule(seed uint64, store string, duration time.Duration) (all []Fault) {
	for f := range Faults(seed, store) {
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
