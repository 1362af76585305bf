package e2e

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// offsets is the number of places in every file to damage: 20 takes half an
// hour and is for people who change the data folder.
var offsets = flag.Int("e2e.offsets", 1, "places in each file of the data folder to damage")

// TestDataFolder damages the data folder of a stopped server in every way that a
// disk, a full volume or a person can, and starts it again, twice, as people do.
// Each time it has to refuse, or to hand out no ID that was handed out before. A
// copy that was made while the server ran is refused, and served after a raise.
//
// A soak does everything to each of three folders. Otherwise it is ten samples,
// by a seed.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	var s settings
	if tier.IsSoak() { // hundreds of processes
		s.binary = plainBinary(t)
	}
	random := seeded(t)
	for _, history := range []struct {
		name string
		make func(*folder)
	}{
		{"stopped", func(f *folder) { f.live(syscall.SIGTERM) }},
		{"killed in its first life", func(f *folder) { f.live(syscall.SIGKILL) }},
		{"killed in its second life", func(f *folder) { f.live(syscall.SIGTERM); f.live(syscall.SIGKILL) }},
	}[tier.Pick(2, 0):] {
		t.Run(history.name, func(t *testing.T) {
			f := &folder{t: t, settings: s, path: filepath.Join(t.TempDir(), "[data]"), older: filepath.Join(t.TempDir(), "older"), highest: make(map[string]int64)}
			history.make(f)
			all := damages(t, f.path, *offsets)
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			if !tier.IsSoak() {
				all = all[:10]
			}
			f.tryAll(append(all, damage{name: "nothing"}))
			t.Run("put back", f.putBack)
		})
	}
}

// seeded returns random numbers whose seed IDWORKER_SEED sets.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("IDWORKER_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("IDWORKER_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// folderTags are the tags in the folder. The demo, with which the server is
// started, creates the first if it does not find it.
var folderTags = []string{"order", "invoice"}

// folderSteps are small, so that many reservations are in the folder.
var folderSteps = []string{"--max-step", "200", "--max-batch", "200", "--wait", "500ms"}

// folder has a data folder in it, with its witness beside it, and the IDs
// handed out from it.
type folder struct {
	t        *testing.T
	settings settings
	path     string
	older    string           // copy of the data folder, made while the server ran
	highest  map[string]int64 // tag → highest ID
}

// dataIn is the data folder in a folder.
func dataIn(path string) string { return filepath.Join(path, "data") }

// live runs a server on the folder, takes IDs, and ends it.
func (f *folder) live(end syscall.Signal) {
	f.t.Helper()
	server := f.settings.startServer(f.t, dataIn(f.path), folderSteps...)
	client := dial(f.t, server.url)
	for _, tag := range folderTags {
		if f.highest[tag] == 0 {
			f.settings.run(f.t, "tag", "create", "--server", server.url, tag, "--step", "10")
		}
		f.take(client, tag)
	}
	copied := make(chan error, 1)
	go func() { // files come and go
		_ = os.RemoveAll(f.older)
		_, err := exec.Command("cp", "-a", dataIn(f.path), f.older).CombinedOutput()
		copied <- err
	}()
	for copying := true; copying; {
		select {
		case err := <-copied:
			f.t.Logf("copied: %v", err)
			copying = false
		default:
		}
		for _, tag := range folderTags {
			f.take(client, tag)
		}
	}
	if end == syscall.SIGKILL {
		noted(f.t, natstest.JetStream(f.t, client.conn), dataIn(f.path)+".witness")
		server.kill()
		return
	}
	server.stop(end)
}

// take takes IDs of several reservations.
func (f *folder) take(client requester, tag string) {
	f.t.Helper()
	for range 8 {
		ranges := client.get(f.t, tag, 100)
		f.highest[tag] = ranges[len(ranges)-1].Last
	}
}

// putBack puts the older copy back.
func (f *folder) putBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "[put back]")
	data, highest := dataIn(path), maps.Clone(f.highest)
	if err := errors.Join(os.CopyFS(path, os.DirFS(f.path)), os.RemoveAll(data), os.CopyFS(data, os.DirFS(f.older))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		refuses(t, f.settings.launch(t, "serve", "--listen", freeport.Address(t), "--data", data),
			"old copy", "bucket ids_register is at sequence ", ", was at ", remedy+" --data '"+data+"'")
	}
	raiseAll(t, "--data", data)
	for range 2 {
		f.start(t, data, highest, true)
	}
}

// tryAll tries every damage on a copy of its own, and starts a server on that
// twice.
func (f *folder) tryAll(all []damage) {
	for _, d := range all {
		f.t.Run(d.name, func(t *testing.T) {
			t.Parallel() // they wait for disks
			damaged := filepath.Join(t.TempDir(), "damaged")
			err := os.CopyFS(damaged, os.DirFS(f.path))
			if err == nil && d.do != nil {
				err = d.do(damaged)
			}
			if err != nil {
				t.Fatal(err)
			}
			highest := maps.Clone(f.highest)
			for start := range 2 {
				if f.start(t, dataIn(damaged), highest, d.do == nil); t.Failed() {
					t.Fatalf("start %d", start+1)
				}
			}
		})
	}
}

// start starts a server on a damaged folder once. If the folder is whole, it
// may not refuse.
func (f *folder) start(t *testing.T, data string, highest map[string]int64, whole bool) {
	t.Helper()
	address := freeport.Address(t)
	args := []string{"serve", "--demo", "--listen", address, "--data", data, "--http", freeport.Address(t), "--api", freeport.Address(t)}
	p := f.settings.launch(t, append(args, folderSteps...)...)
	defer p.kill()
	natstest.Eventually(t, "it serves or ends", func() bool { return p.hasEnded() || strings.Contains(p.stdout.String(), "Ctrl-C") })
	if p.hasEnded() {
		complaint := p.stderr.String()
		if code := p.cmd.ProcessState.ExitCode(); whole || code == 0 || strings.Contains(complaint, "panic: ") || !strings.Contains(complaint, "idworker: ") {
			t.Errorf("ended with %d, of a whole folder (%t) or with no clear error: %s", code, whole, complaint)
		}
		t.Log("refused")
		return
	}
	client := dial(t, "nats://"+address)
	for _, tag := range folderTags {
		var ranges []messages.Range
		var err error
		if whole {
			ranges = client.get(t, tag, 15)
		} else {
			ranges, err = client.once(t, tag, 15)
		}
		switch {
		case errors.Is(err, messages.ErrNoTag):
			t.Errorf("LOST: tag %s is unknown; whoever creates it again gets its IDs again", tag)
		case err == nil && ranges[0].First <= highest[tag]:
			t.Errorf("DUPLICATE: %v of %s, after IDs up to %d", ranges, tag, highest[tag])
		case err == nil:
			highest[tag] = ranges[len(ranges)-1].Last
		}
	}
	p.signal(syscall.SIGTERM)
	// A panic has the exit code of bad usage, a race 66, and an end by a signal
	// -1.
	if code := p.wait(); whole && code != exitOK || code < 0 || code == exitUsage || code == 66 || strings.Contains(p.stderr.String(), "panic: ") {
		t.Errorf("ended with %d: %s", code, p.stderr.Tail())
	}
}

// damage is done to a data folder.
type damage struct {
	name string
	do   func(data string) error // nil: nothing
}

// damages lists the faults of each file and folder, at a number of places.
func damages(t *testing.T, data string, places int) (all []damage) {
	t.Helper()
	err := filepath.WalkDir(data, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == data {
			return err
		}
		rel, err := filepath.Rel(data, path)
		if err != nil {
			return err
		}
		all = append(all, damage{"without " + rel, func(data string) error { return os.RemoveAll(filepath.Join(data, rel)) }})
		if entry.IsDir() {
			// With a single place, the other buckets are only removed: IDs
			// depend on the register.
			if name := entry.Name(); places == 1 && strings.HasPrefix(name, "KV_") && name != "KV_ids_register" {
				return filepath.SkipDir
			}
			return nil
		}
		content, err := os.ReadFile(path)
		if err == nil && len(content) > 0 {
			all = append(all, fileDamages(rel, len(content), places)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fileDamages lists the faults of a file. A block of messages is damaged with
// its index beside it and without: the server trusts an existing index.
func fileDamages(rel string, size, places int) (all []damage) {
	edit := func(what string, change func([]byte) []byte) {
		do := func(data string) error {
			path := filepath.Join(data, rel)
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, change(slices.Clone(content)), 0o600)
		}
		all = append(all, damage{rel + " " + what, do})
		if filepath.Ext(rel) == ".blk" {
			all = append(all, damage{rel + " without index.db, " + what, func(data string) error {
				if err := os.RemoveAll(filepath.Join(data, filepath.Dir(rel), "index.db")); err != nil {
					return err
				}
				return do(data)
			}})
		}
	}
	for i := range places {
		at := (2*i + 1) * size / (2 * places) // in the middle, if there is one place
		edit(fmt.Sprintf("with byte %d of %d flipped", at, size), func(b []byte) []byte { b[at] ^= 0xff; return b })
		edit(fmt.Sprintf("cut to %d of %d bytes", at, size), func(b []byte) []byte { return b[:at] })
		edit(fmt.Sprintf("with zeros from %d of %d on", at, size), func(b []byte) []byte { clear(b[at:]); return b })
	}
	edit("with the last byte changed", func(b []byte) []byte { b[size-1] ^= 1; return b })
	edit("empty", func([]byte) []byte { return nil })
	edit("with the last byte missing", func(b []byte) []byte { return b[:size-1] })
	edit("with 100 zeros appended", func(b []byte) []byte { return append(b, make([]byte, 100)...) })
	return all
}
