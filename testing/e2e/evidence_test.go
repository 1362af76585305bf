package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// setback is a way in which the register goes back, while somebody remembers more.
type setback struct {
	name    string
	servers int // 0: one
	slow    bool
	want    string
	do      func(s *evidenceSite) (got string)
}

// setbacks go through what is lost, and who remembers it.
var setbacks = []setback{
	{name: "put back under live workers, both loaders restarted at once, twice", want: stopped, do: func(s *evidenceSite) (got string) {
		s.keep()
		s.putBack(0)
		for range 2 {
			s.startLoaders(nil, nil)
			if got = s.judge(); got != stopped {
				return got
			}
		}
		return got
	}},
	{name: "one worker is left, frozen until a second before the wait ends", want: stopped, do: func(s *evidenceSite) string {
		s.leaveFrozenWorker()
		began := time.Now()
		s.startLoaders(nil, nil)
		after(s.t, began, waitForClaims(len(s.servers))-time.Second)
		s.workers[0].resume()
		return s.judge()
	}},
	{name: "one worker is left, frozen for 30 s", slow: true, want: notCovered, do: func(s *evidenceSite) string {
		s.leaveFrozenWorker()
		began := time.Now()
		s.startLoaders(nil, nil)
		s.startWorkers(1)
		after(s.t, began, 30*time.Second)
		before := s.judge()
		s.workers[0].resume()
		natstest.Eventually(s.t, "the loaders stop", func() bool { return s.stoppedLoaders() == len(s.loaders) })
		return map[string]string{serves: notCovered}[before]
	}},
	{name: "all processes are dead, a witness in the state folder", want: stopped, do: func(s *evidenceSite) string {
		s.state = s.t.TempDir()
		s.startLoaders(nil, nil)
		s.keep()
		s.killNoted(s.state)
		s.putBack(0)
		s.startLoaders(nil, nil)
		s.startWorkers(2)
		return s.judge()
	}},
	{name: "all processes are dead, a witness on tmpfs", slow: true, want: stopped, do: func(s *evidenceSite) string {
		folder, err := os.MkdirTemp(tmpfs(), "idworker-e2e-")
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = os.RemoveAll(folder) })
		one, other := []string{"--witness", filepath.Join(folder, "1.witness")}, []string{"--witness", filepath.Join(folder, "2.witness")}
		s.startLoaders(one, other)
		s.keep()
		s.killNoted(folder)
		s.putBack(0)
		s.startLoaders(one, other)
		s.startWorkers(2)
		return s.judge()
	}},
	{name: "two of three servers have older copies, the third is back later", servers: 3, slow: true, want: stopped, do: func(s *evidenceSite) string {
		s.keep()
		s.putBack(0, 1)
		s.startLoaders(nil, nil)
		got := s.judge()
		s.servers[2].start()
		s.fromHere()
		s.startLoaders(nil, nil)
		// Whoever leads decides: if it is the third, nothing is lost.
		s.t.Logf("after the third is back: %s", s.judge())
		if r := run(s.t, "tag", "raise", "--all", "--dry-run", "--server", s.url); r.code != exitOK {
			s.t.Logf("the third is emptied: %s", r.stderr) // its replicas do not follow
			s.servers[2].server.kill()
			if err := os.RemoveAll(s.servers[2].data); err != nil {
				s.t.Fatal(err)
			}
			s.servers[2].start()
			settings{}.succeeds(s.t, "tag", "raise", "--all", "--dry-run", "--server", s.url)
		}
		return got
	}},
	{name: "older entries at an equal sequence, under a live worker", want: stopped, do: func(s *evidenceSite) string {
		kill(s.workers[1:])
		s.workers = s.workers[:1]
		s.keep()
		kill(s.loaders)
		s.killServers()
		s.revert()
		s.startServers(0)
		s.startLoaders(nil, nil)
		return s.judge()
	}},
	{name: "entries missing at an equal sequence, a witness in the state folder", slow: true, want: stopped, do: func(s *evidenceSite) string {
		const idle = "idle"
		s.state = s.t.TempDir()
		s.startLoaders(nil, nil)
		must(s.t, "tag", "create", "--server", s.url, idle)
		s.keep()
		s.killNoted(s.state)
		s.killServers()
		s.revert(idle)
		s.startServers(0)
		s.startLoaders(nil, nil)
		s.startWorkers(1)
		return s.judge()
	}},
	{name: "ids_config is emptied, under live workers", want: stopped, do: func(s *evidenceSite) string {
		id := s.installation()
		s.emptyConfig()
		s.startLoaders(nil, nil)
		return s.judgeInstallation(id)
	}},
	{name: "ids_config is emptied, all processes are dead, a witness in the state folder", slow: true, want: stopped, do: func(s *evidenceSite) string {
		s.state = s.t.TempDir()
		s.startLoaders(nil, nil)
		s.grow(enoughGrants)
		id := s.installation()
		s.killNoted(s.state)
		s.emptyConfig()
		s.startLoaders(nil, nil)
		s.launch("--role", "worker") // which may be refused, too
		return s.judgeInstallation(id)
	}},
}

// TestEvidence: wherever the register goes back, and one process or file is left
// that remembers more, nothing is granted, whoever is restarted meanwhile. No ID
// comes twice, and those of a strict tag ascend. From the success of a raise on,
// everything serves again, stopped loaders without a restart, and no ID comes
// twice that was handed out before.
func TestEvidence(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var table []string
	t.Cleanup(func() { t.Log("row | verdict | IDs | twice\n" + strings.Join(table, "\n")) })
	for _, l := range setbacks {
		for round := range tier.Pick(1, 3) {
			t.Run(l.name, func(t *testing.T) {
				if l.slow {
					tier.Soak(t)
				}
				t.Parallel()
				s := newEvidenceSite(t, max(l.servers, 1))
				got := l.do(s)
				twice := s.repeated()
				mu.Lock()
				table = append(table, fmt.Sprintf("%s (%d) | %s | %d | %d", l.name, round+1, got, s.answers(), twice))
				mu.Unlock()
				if got != l.want && (got != refused || !strings.HasPrefix(l.name, "ids_config")) {
					t.Errorf("%s, want %s", got, l.want)
				}
				if l.want != notCovered {
					s.ordered(t)
					if twice > 0 {
						t.Errorf("%d IDs came twice", twice)
					}
				}
				if got == stopped || got == notCovered {
					s.raise()
				}
				s.finish()
				s.check(t, strictTag)
			})
		}
	}
}

// waitForClaims is how long a loader waits for the claims of others: a time-out
// to dial each server, and a second.
func waitForClaims(servers int) time.Duration {
	return time.Duration(servers)*nats.DefaultTimeout + time.Second
}

// leaveFrozenWorker puts the register back while a single process lives, which is
// frozen as soon as it has connected again.
func (s *evidenceSite) leaveFrozenWorker() {
	s.t.Helper()
	s.keep()
	kill(append(s.loaders, s.workers[1:]...))
	s.loaders, s.workers = nil, s.workers[:1]
	s.putBack(0)
	s.answer(s.t, s.workers[0])
	s.workers[0].pause()
}

// killNoted ends all processes once the witnesses of the loaders hold what is in
// the register.
func (s *evidenceSite) killNoted(folder string) {
	s.t.Helper()
	kill(s.workers)
	s.workers = nil
	s.killLoaders(folder)
}

// killLoaders ends the loaders once their witnesses hold what is in the register
// by now.
func (s *evidenceSite) killLoaders(folder string) {
	s.t.Helper()
	var files []string
	natstest.Eventually(s.t, "each loader has a witness", func() bool {
		files = nil
		_ = filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".witness") {
				files = append(files, path)
			}
			return nil
		})
		return len(files) >= len(s.loaders)
	})
	noted(s.t, s.js, files...)
	kill(s.loaders)
	s.loaders = nil
}

// tmpfs is a folder in memory, where there is one.
func tmpfs() string {
	if _, err := os.Stat("/dev/shm"); err != nil {
		return ""
	}
	return "/dev/shm"
}

// emptyConfig removes all messages of ids_config from the disk of the only
// server.
func (s *evidenceSite) emptyConfig() {
	s.t.Helper()
	s.killServers()
	emptyConfig(s.t, s.servers[0].data)
	s.startServers(0)
}

func emptyConfig(t *testing.T, data string) {
	t.Helper()
	if err := os.RemoveAll(streamFolder(data, configBucket)); err != nil {
		t.Fatal(err)
	}
}

// installation is the ID of the installation; "" if there is none.
func (s *evidenceSite) installation() string {
	s.t.Helper()
	id, err := agreement.LookupID(s.t.Context(), s.js, messages.DefaultPrefix)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// judgeInstallation is judge, after which there may be no other installation.
func (s *evidenceSite) judgeInstallation(id string) string {
	s.t.Helper()
	got := s.judge()
	if now := s.installation(); now != id && now != "" {
		s.t.Errorf("installation %s was made anew as %s", id, now)
	}
	return got
}

// TestEvidenceOfTornRecord: the last record of the register is torn off on the
// disk of an embedded server. If the witness has noted it, the process refuses to
// serve. It notes once a second, so what was granted after that may come again.
func TestEvidenceOfTornRecord(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, want string }{{"noted", refused}, {"not noted", notCovered}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			data := dataIn(t.TempDir())
			s := startServer(t, data, "--wait", "500ms")
			must(t, "tag", "create", "--server", s.url, strictTag, "--order", "strict")
			client := dial(t, s.url)
			last := int64(0)
			for range 20 {
				last = client.next(t, strictTag)
			}
			if row.want == refused {
				noted(t, natstest.JetStream(t, client.conn), data+".witness")
			}
			s.kill()
			tearRegister(t, data)
			p := settings{}.launch(t, "serve", "--listen", strings.TrimPrefix(s.url, "nats://"), "--data", data)
			if !p.servesOrEnds() {
				t.Log("refused")
				return
			}
			if row.want == refused {
				t.Error("serves, want a refusal")
			}
			if next := dial(t, s.url).next(t, strictTag); next <= last {
				t.Logf("not covered: ID %d after %d", next, last)
				if row.want == refused {
					t.Error("came twice")
				}
			}
		})
	}
}

// tearRegister removes the end of the last record of the register, and the index
// that a server writes when it stops.
func tearRegister(t *testing.T, data string) {
	t.Helper()
	folder := streamFolder(data, registerBucket)
	blocks, err := filepath.Glob(filepath.Join(folder, "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatal(blocks, err)
	}
	info, err := os.Stat(blocks[0])
	if err == nil {
		err = os.Truncate(blocks[0], info.Size()-3)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(folder, "index.db"))
}

// TestEvidenceOfEmptiedConfig: a process with an embedded server whose bucket
// ids_config was emptied makes no installation anew.
func TestEvidenceOfEmptiedConfig(t *testing.T) {
	t.Parallel()
	data := dataIn(t.TempDir())
	host := startServer(t, data)
	createTag(t, host.url, strictTag, "--order", "strict")
	noted(t, natstest.JetStream(t, connect(t, host.url)), data+".witness")
	host.kill()
	emptyConfig(t, data)
	p := settings{}.launch(t, "serve", "--listen", strings.TrimPrefix(host.url, "nats://"), "--data", data)
	if p.servesOrEnds() {
		t.Error("serves, want a refusal")
	}
}
