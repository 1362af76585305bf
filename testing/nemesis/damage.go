package nemesis

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// blockSize is what is zeroed of a file, and how near to a file's end half of the
// damage is.
const blockSize = 4096

// errNoFile: there is no file of the kind that the fault damages.
var errNoFile = errors.New("not done: no such file yet")

// victims are the servers whose files a fault changes: one of the seed, the
// leader, or two.
func (r *Run) victims(f Fault, stream, which string) ([]string, error) {
	i := f.Size % len(servers)
	switch which {
	case "leader":
		p, err := r.cluster.leader(stream)
		if err != nil {
			return nil, err
		}
		return []string{p.Name}, nil
	case "one":
		return []string{servers[i]}, nil
	default: // two, or each
		return []string{servers[i], servers[(i+1)%len(servers)]}, nil
	}
}

// beginDamage kills servers, and damages a file of each. The first of them leads
// the stream afterwards.
func (r *Run) beginDamage(f Fault, stream, which string, random *rand.Rand) (mend func() error, err error) {
	victims, err := r.victims(f, stream, which)
	if err != nil {
		return nil, err
	}
	group, err := r.cluster.group(stream)
	if err != nil {
		return nil, err
	}
	for _, server := range victims {
		r.programs[server].Kill()
	}
	release := func() {
		for _, server := range victims {
			r.programs[server].Release()
		}
	}
	paths, corrupt := make(map[string]string), make(map[string]int) // by server
	for _, server := range victims {
		if paths[server] = r.pick(f, server, stream, group, random); paths[server] == "" {
			release()
			return nil, errNoFile
		}
		corrupt[server] = r.corrupt(server)
	}
	for _, server := range victims {
		err = errors.Join(err, r.damage(f, server, paths[server], random))
	}
	return func() error {
		release()
		if stream == metaGroup {
			return r.cluster.awaitHealth(victims[0])
		}
		if f.Kind == "snapshot damaged" {
			r.replaceRefused(victims, corrupt)
		}
		return r.cluster.lead(stream, victims[0])
	}, err
}

// corrupt is how often a server has logged that it refuses a snapshot, and goes on
// without the stream.
func (r *Run) corrupt(server string) int {
	text, _ := os.ReadFile(filepath.Join(r.folder, server+".log"))
	return strings.Count(string(text), "snapshot corrupt")
}

// replaceRefused puts back the snapshots that servers refuse, which had refused so
// many before.
func (r *Run) replaceRefused(victims []string, before map[string]int) {
	for _, server := range victims {
		refuses := false
		_ = natstest.Await(time.Minute, server+" to be healthy", func() error {
			time.Sleep(100 * ms)
			refuses = r.corrupt(server) > before[server]
			if refuses {
				return nil
			}
			return r.cluster.health(server)
		})
		if refuses {
			p := r.programs[server]
			p.Kill()
			r.refused(server)
			p.Release()
		}
	}
}

// pick is a file of a server that a fault damages.
func (r *Run) pick(f Fault, server, stream, group string, random *rand.Rand) string {
	raft := r.cluster.raft(server, group)
	paths, _ := filepath.Glob(map[string]string{ // the patterns are well-formed
		"block damaged":    filepath.Join(r.cluster.stream(server, stream), "msgs", "*.blk"),
		"raft log damaged": filepath.Join(raft, "msgs", "*.blk"),
		"snapshot damaged": filepath.Join(raft, "snapshots", "*"),
		"meta damaged":     filepath.Join(raft, []string{"msgs/*.blk", "snapshots/*"}[f.Size%2]),
	}[f.Kind])
	paths = slices.DeleteFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.Size() == 0
	})
	if len(paths) == 0 {
		return ""
	}
	return paths[random.IntN(len(paths))]
}

// damage damages a file of a server. If the server then refuses the file, an
// operator puts it back, see [Run.refused].
func (r *Run) damage(f Fault, server, path string, random *rand.Rand) error {
	if f.Kind == "block damaged" && random.IntN(3) == 0 {
		if err := os.Remove(filepath.Join(filepath.Dir(path), "index.db")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	whole, err := harm(path, random)
	if err != nil {
		return err
	}
	r.figures.bite(f, func(b *bite) { b.files++ })
	r.harmed.Store(server, func() error {
		r.figures.bite(f, func(b *bite) { b.refused++ })
		return os.WriteFile(path, whole, 0o600)
	})
	return nil
}

// harm flips a bit of a file, cuts it, or zeroes 4 KiB. It returns what the file
// was.
func harm(path string, random *rand.Rand) (whole []byte, err error) {
	whole, err = os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	at := random.IntN(len(whole))
	if random.IntN(2) == 0 {
		at = len(whole) - 1 - random.IntN(min(len(whole), blockSize))
	}
	changed := slices.Clone(whole)
	switch random.IntN(3) {
	case 0:
		changed[at] ^= 1 << random.IntN(8)
	case 1:
		changed = changed[:at]
	default:
		clear(changed[at:min(len(changed), at+blockSize)])
	}
	return whole, os.WriteFile(path, changed, 0o600)
}

// refused is what an operator does if a server refuses to start, or refuses a
// stream: he puts back the file.
func (r *Run) refused(server string) {
	undo, there := r.harmed.LoadAndDelete(server)
	if !there {
		return
	}
	if err := undo.(func() error)(); err != nil {
		r.note("%s: %v", server, err)
	}
}

// beginLost removes a folder of a server, and after that of another one as well,
// when the first has caught up.
func (r *Run) beginLost(f Fault, what, which string) (mend func() error, err error) {
	victims, err := r.victims(f, registerStream, which)
	if err != nil {
		return nil, err
	}
	group, err := r.cluster.group(registerStream)
	if err != nil {
		return nil, err
	}
	remove := func(server string) error {
		r.programs[server].Kill()
		r.figures.bite(f, func(b *bite) { b.files++ })
		return os.RemoveAll(map[string]string{
			"stream": r.cluster.stream(server, registerStream), "raft": r.cluster.raft(server, group), "all": r.cluster.data(server),
		}[what])
	}
	err = remove(victims[0])
	return func() (err error) {
		r.programs[victims[0]].Release()
		if which == "each" {
			if err := r.cluster.awaitHealth(victims[0]); err != nil {
				return err
			}
			err = remove(victims[1])
			r.programs[victims[1]].Release()
		}
		return err
	}, err
}

// ours are the streams whose old copies are put back.
var ours = []string{registerStream, "KV_ids_config", "KV_ids_clock", "KV_ids_workers", "IDS_LOAD"}

// beginOld copies the folders of idworker's streams of one or two servers, unless
// an earlier fault has. When it is mended, these servers come back with the
// copies, and the third one after them, so that two copies are the majority.
func (r *Run) beginOld(ctx context.Context, f Fault, which string, forget func()) (mend func() error, err error) {
	victims, err := r.victims(f, registerStream, which)
	if err != nil {
		return nil, err
	}
	copies := make(map[string]string) // by folder
	for _, server := range victims {
		all, err := r.copies(server)
		if err != nil {
			return nil, err
		}
		maps.Copy(copies, all)
		if err := r.copyFolders(server, all); err != nil {
			return nil, err
		}
	}
	return func() error {
		if err := r.awaitGrants(ctx); err != nil {
			return err
		}
		down := victims
		if len(victims) > 1 {
			down = servers
		}
		for _, server := range down {
			r.programs[server].Kill()
		}
		forget()
		var failed error
		for folder, copied := range copies {
			failed = errors.Join(failed, os.RemoveAll(folder), os.CopyFS(folder, os.DirFS(copied)))
		}
		for _, server := range victims {
			failed = errors.Join(failed, syncDisk(r.cluster.disk(server)))
		}
		r.figures.bite(f, func(b *bite) { b.files += len(copies) })
		for _, server := range victims {
			r.programs[server].Release()
		}
		led := r.cluster.lead(registerStream, victims[0])
		time.Sleep(3 * time.Second)
		for _, server := range down {
			if !slices.Contains(victims, server) {
				r.programs[server].Release()
			}
		}
		return errors.Join(failed, led)
	}, nil
}

// copies are where the copies of a server's folders are. A stream that is made
// anew has another raft group, and old copies do not fit it.
func (r *Run) copies(server string) (byFolder map[string]string, err error) {
	byFolder = make(map[string]string)
	for _, stream := range ours {
		group, err := r.cluster.group(stream)
		if err != nil {
			return nil, err
		}
		old := filepath.Join(r.work, "old", server, group)
		byFolder[r.cluster.stream(server, stream)] = filepath.Join(old, "stream")
		byFolder[r.cluster.raft(server, group)] = filepath.Join(old, "raft")
	}
	return byFolder, nil
}

// copyFolders copies a server's folders while it is killed, except for those of
// which there are copies.
func (r *Run) copyFolders(server string, copies map[string]string) (err error) {
	missing := maps.Clone(copies)
	maps.DeleteFunc(missing, func(_, copied string) bool { _, err := os.Stat(copied); return err == nil })
	if len(missing) == 0 {
		return nil
	}
	r.programs[server].Kill()
	for folder, copied := range missing {
		if failed := os.CopyFS(copied, os.DirFS(folder)); failed != nil {
			err = errors.Join(err, failed, os.RemoveAll(copied))
		}
	}
	r.programs[server].Release()
	led := natstest.Await(30*time.Second, "a leader", func() error { _, err := r.cluster.leader(registerStream); return err })
	return errors.Join(err, led)
}
