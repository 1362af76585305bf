package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// TestEvidenceIsVoid: claims of another installation, claims from before a raise,
// and proof and witnesses from before a restore stop nothing, neither loaders that
// start nor those that run.
func TestEvidenceIsVoid(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		slow bool
		do   func(s *evidenceSite)
	}{
		{"claims of another installation", false, func(s *evidenceSite) {
			other := s.newImpostor("OTHER")
			other.installation, other.created, other.role = "other", time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano), worker.RoleSnowflake
			s.hears(other, store.Claim{Floor: s.floor(), Sequence: 1 << 50})
			natstest.Eventually(s.t, "both loaders name it", func() bool {
				return !slices.ContainsFunc(s.loaders, func(p *process) bool { return !strings.Contains(p.stderr.String(), `"other"`) })
			})
		}},
		{"claims of an installation with the same ID, made at another time", true, func(s *evidenceSite) {
			other := s.newImpostor("OTHER")
			other.created, other.role = time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano), worker.RoleSnowflake
			s.hears(other, store.Claim{Floor: s.floor(), Sequence: 1 << 50})
		}},
		{"claims from before a raise", false, func(s *evidenceSite) {
			late := s.newImpostor("LATE")
			before := store.Claim{Floor: max(s.floor(), 1), Sequence: 1 << 50}
			s.raise()
			s.hears(late, before)
		}},
		{"a restore beside proof and witnesses of the lost register", false, func(s *evidenceSite) {
			s.state = s.t.TempDir()
			s.startLoaders(nil, nil)
			s.grow(enoughGrants)
			backup := filepath.Join(s.t.TempDir(), "backup")
			must(s.t, "backup", backup, "--server", s.url)
			s.grow(enoughGrants)
			before := s.floor()
			s.killLoaders(s.state)
			s.killServers()
			if err := os.RemoveAll(s.servers[0].data); err != nil {
				s.t.Fatal(err)
			}
			s.servers[0].start()
			must(s.t, "restore", backup, "--yes", "--server", s.url)
			s.succeed(s.t)
			s.leaveProof(before)
			s.fromHere()
			s.startLoaders(nil, nil)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.slow {
				tier.Soak(t)
			}
			t.Parallel()
			s := newEvidenceSite(t, 1)
			row.do(s)
			if got := s.judge(); got != serves {
				t.Errorf("%s, want %s", got, serves)
			}
			s.served(t, orderTag, strictTag)
			s.finish()
			s.check(t, strictTag)
		})
	}
}

// floor is the floor of the latest decision; 0 if there was none.
func (s *evidenceSite) floor() int64 {
	s.t.Helper()
	floor, err := agreement.Floor(s.t.Context(), s.js, messages.DefaultPrefix)
	if err != nil {
		s.t.Fatal(err)
	}
	return floor
}

// hears has loaders hear a claim while they run, and others when they start.
func (s *evidenceSite) hears(from *impostor, c store.Claim) {
	s.t.Helper()
	from.send(c)
	s.fromHere()
	if got := s.judge(); got != serves {
		s.t.Errorf("loaders that run: %s, want %s", got, serves)
	}
	from.answer(c)
	s.startLoaders(nil, nil)
	s.fromHere()
}

// leaveProof leaves the proof of a loader that stopped under a floor.
func (s *evidenceSite) leaveProof(floor int64) {
	s.t.Helper()
	bucket, err := s.js.KeyValue(s.t.Context(), strings.TrimPrefix(configBucket, "KV_"))
	if err == nil {
		proof, _ := json.Marshal(map[string]any{
			"id": s.installation(), "floor": floor, "seen": int64(1) << 50, "found": 1, "by": "OLD", "time": time.Now().AddDate(-1, 0, 0),
		})
		_, err = bucket.Put(s.t.Context(), "regressed", proof)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestEvidenceOfOneUser: a tutorial is run twice. Then two installations with two
// loaders each run for one user on one machine, with one state folder.
func TestEvidenceOfOneUser(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	user := settings{env: []string{"HOME=" + state, "XDG_STATE_HOME=", "STATE_DIRECTORY="}}
	for _, n := range append(startNATS(t, 1), startNATS(t, 1)...) {
		url := "nats://" + n.address
		var given ledger
		for range 2 {
			for _, p := range []*process{user.startWorker(t, url), user.startWorker(t, url)} {
				must(t, "tag", "create", "--if-missing", "--server", url, orderTag)
				given.add(dial(t, url).get(t, orderTag, 10))
				defer p.kill()
			}
		}
		given.check(t)
	}
}

// TestEvidenceOfAPod: a pod that has a read-only root, no home, and the rights of
// version 0.2.0's nats.conf starts and serves, and logs no error.
func TestEvidenceOfAPod(t *testing.T) {
	t.Parallel()
	if err := deps.History(); err != nil {
		t.Skipf("%s: %v", deps.NoHistory, err)
	}
	conf, err := exec.Command("git", "show", deps.OldCommit+":nats.conf").Output()
	if err != nil {
		t.Fatal(err)
	}
	p := startProduction(t, write(t, t.TempDir(), "nats.conf", string(conf)))
	p.must("admin", "provision", "--part", "ids")
	p.must("admin", "tag", "create", orderTag)
	var all []*process
	for _, env := range [][]string{
		{"HOME=", "XDG_STATE_HOME=", "STATE_DIRECTORY="},
		{"HOME=/proc/none", "XDG_STATE_HOME=", "STATE_DIRECTORY="}, // no folder can be made there
	} {
		for _, role := range []string{"loader", "worker"} {
			as := p.as(role)
			as.env = append(as.env, env...)
			s := as.launch(t, "serve", "--role", role)
			s.serving()
			all = append(all, s)
		}
	}
	p.as("caller").succeeds(t, "get", orderTag, "10")
	kill(all[:2])
	p.as("caller").succeeds(t, "get", orderTag, "10000")
	for _, s := range all {
		if strings.Contains(s.stderr.String(), "\terror\t") {
			t.Errorf("logs an error:\n%s", s.stderr.Tail())
		}
	}
}

// TestEvidenceOfALiar: somebody with a worker's password claims the highest
// numbers there are. Loaders that hear it stop, and name it. A raise does not
// take the numbers silently, and one that ignores the liar ends it. Nothing is
// left of the claim once the liar is gone.
func TestEvidenceOfALiar(t *testing.T) {
	t.Parallel()
	for _, lie := range []struct {
		name  string
		slow  bool
		claim store.Claim
		asks  bool // a raise would go by it, so it asks
	}{
		{"sequence", true, store.Claim{Sequence: math.MaxInt64}, false},
		{"floor", false, store.Claim{Floor: math.MaxInt64, Sequence: 1}, true},
		{"floor with IDs left", true, store.Claim{Floor: math.MaxInt64 - 1<<40, Sequence: 1}, true},
		{"next", false, store.Claim{Sequence: 1, Tag: orderTag, Next: math.MaxInt64}, true},
	} {
		t.Run(lie.name, func(t *testing.T) {
			if lie.slow {
				tier.Soak(t)
			}
			t.Parallel()
			s := newEvidenceSite(t, 1)
			s.state = t.TempDir()
			liar, claim := s.newImpostor("LIAR"), lie.claim
			claim.Floor = max(claim.Floor, s.floor(), 1)
			stop := liar.answer(claim)
			s.fromHere()
			s.startLoaders(nil, nil)
			s.fromHere()
			if got := s.judge(); got != stopped {
				t.Fatalf("%s, want %s", got, stopped)
			}
			natstest.Eventually(t, "status names the liar", func() bool {
				return strings.Contains(run(t, "status", "--server", s.url).stdout, "LIAR")
			})
			before := s.floor()
			raise := run(t, "tag", "raise", "--all", "--yes", "--server", s.url)
			// The liar is named in any case: it does not follow the decision.
			if !strings.Contains(raise.stderr, "LIAR") || s.floor() > 2*time.Now().UnixMicro() {
				t.Errorf("tag raise: exit code %d, floor %d\n%s", raise.code, s.floor(), raise.stderr)
			}
			if lie.asks && (!strings.Contains(raise.stderr, "--ignore ") || s.floor() != before) {
				t.Errorf("tag raise: exit code %d, floor %d, want a refusal that names --ignore\n%s", raise.code, s.floor(), raise.stderr)
			}
			s.raise("--ignore", "LIAR")
			liar.send(claim)
			s.fromHere()
			if got := s.judge(); got != serves {
				t.Errorf("%s while the liar goes on, want %s", got, serves)
			}
			stop()
			s.startLoaders(nil, nil)
			s.fromHere()
			if got := s.judge(); got != serves {
				t.Errorf("%s after the liar, want %s", got, serves)
			}
			s.leavesNothing(fmt.Sprint(max(lie.claim.Floor, lie.claim.Next, int64(lie.claim.Sequence))))
			s.finish()
			s.check(t, strictTag)
		})
	}
}

// leavesNothing checks that no bucket, and no file of the state folder, contains
// a text.
func (s *evidenceSite) leavesNothing(text string) {
	s.t.Helper()
	for _, name := range []string{registerBucket, configBucket} {
		stream, err := s.js.Stream(s.t.Context(), name)
		if err != nil {
			s.t.Fatal(err)
		}
		info, err := stream.Info(s.t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			s.t.Fatal(err)
		}
		for subject := range info.State.Subjects {
			if m, err := stream.GetLastMsgForSubject(s.t.Context(), subject); err == nil && strings.Contains(string(m.Data), text) {
				s.t.Errorf("%s: %s", subject, m.Data)
			}
		}
		for key, value := range info.Config.Metadata {
			if strings.Contains(value, text) {
				s.t.Errorf("metadata %s of %s: %s", key, name, value)
			}
		}
	}
	_ = filepath.WalkDir(s.state, func(path string, _ os.DirEntry, _ error) error {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), text) {
			s.t.Errorf("%s: %s", path, data)
		}
		return nil
	})
}

// TestFirstID logs how long a process of its own takes from its start until a
// caller has an ID, beside a server of its own. Nothing is judged.
func TestFirstID(t *testing.T) {
	t.Parallel()
	s := settings{binary: plainBinary(t), env: []string{"HOME=" + t.TempDir(), "XDG_STATE_HOME=", "STATE_DIRECTORY="}}
	url := "nats://" + startNATS(t, 1)[0].address
	client := dial(t, url)
	var took []time.Duration
	for n := range 4 {
		began := time.Now()
		p := s.startWorker(t, url)
		if n == 0 {
			must(t, "tag", "create", "--server", url, orderTag)
		}
		client.next(t, orderTag)
		took = append(took, time.Since(began).Round(time.Millisecond))
		p.stop(syscall.SIGTERM)
	}
	t.Logf("the first start took %v until the first ID, later ones %v", took[0], took[1:])
}
