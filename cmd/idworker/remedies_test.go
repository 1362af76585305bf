package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestRemedies: each command in a hint works as written, on the state that
// caused the error, and the failed command works afterwards. Placeholders (N,
// TAG) are filled in.
//
// Not covered here: denied rights and enrichments, which testing/e2e covers;
// hints about a database, because there is none; idworker tag ls after a lost
// reply; idworker tag rm after a failed message to workers;
// idworker provision --replicas 3, which cmd/internal/health covers; and
// idworker restore and idworker provision --new --installation, which
// TestRestoreFolder, cmd/internal/backup and pin_test.go cover.
func TestRemedies(t *testing.T) {
	t.Parallel()
	t.Run("an installation", remediesOfInstallation)
	t.Run("nothing provisioned", remediesOfNothing)
	t.Run("counters that are gone", remediesOfCounters)
	t.Run("settings that are gone", remediesOfSettings)
	t.Run("another store", remediesOfStore)
	t.Run("a data folder", remediesOfFolder)
}

// named returns the arguments of a command in an error, filled in.
func named(t *testing.T, refused result, command string, fill ...string) (args []string) {
	t.Helper()
	text := refused.stderr + refused.stdout
	if refused.code == exitOK && !strings.Contains(text, "warn") || !strings.Contains(text, command) {
		t.Fatalf("is refused (%d) with %q, which does not name %q", refused.code, text, command)
	}
	quoted := strings.NewReplacer("'", "", "idworker ", "")
	return strings.Fields(strings.NewReplacer(fill...).Replace(quoted.Replace(command)))
}

// remedied runs a command that fails, the command in its hint, and the first
// command again.
func (s *site) remedied(refused, command string, fill ...string) {
	s.Helper()
	var first result
	natstest.Eventually(s, refused+" is refused", func() bool {
		first = s.at(refused)
		return strings.Contains(first.stderr+first.stdout, command)
	})
	s.must(strings.Join(named(s.T, first, command, fill...), " "))
	natstest.Eventually(s, refused+" works", func() bool {
		again := s.at(refused)
		// Doctor also finds that the test's server does not sync.
		if strings.HasPrefix(refused, "doctor") {
			again.code = exitOK
		}
		return again.code == exitOK && !strings.Contains(again.stdout, command)
	})
}

func remediesOfInstallation(t *testing.T) {
	t.Parallel()
	// A process that claims a worker ID waits for its lease to end.
	const ttl = "--lease-ttl 15s"
	s := newSite(t, strings.Fields(ttl)...)
	s.must("tag create order --step 10 --first 100")
	s.must("tag create chat.* --template --max-tags 1")
	s.must("tag create chat.> --template --max-tags 1")
	s.answered("get chat.a")
	s.answered("get chat.a.x")
	s.remedied("get chat.b --timeout 1s", "idworker tag set 'chat.*' --max-tags N", "N", "5")
	s.remedied("get new", "idworker tag create new")
	s.remedied("get --number {yyyyMMdd}-{seq} bill", "idworker tag create 'bill.*' --template --dated yyyyMMdd --order strict")
	s.remedied("tag create order --if-missing --step 11", "idworker tag set 'order' --step 11")
	s.remedied("tag create order --if-missing --first 5000", "idworker tag raise order --next 5000")
	s.remedied("tag create chat.* --template --if-missing --first 5000", "idworker tag raise --all --by N", "N", "5000")
	s.remedied("doctor --lease-ttl 60s", "idworker provision", "provision", "provision --lease-ttl 60s")
	s.must("tag rm order --yes")
	low := s.at("tag create order --first 1")
	first := regexp.MustCompile(`create it with (--first \d+) or above`).FindStringSubmatch(low.stderr)
	if first == nil {
		t.Fatalf("a tag that was removed begins at 1: %+v", low)
	}
	if r := s.at("tag create order --order strict " + first[1]); !strings.Contains(r.stderr, "give --order trend") {
		t.Errorf("with the other order: %+v", r)
	}
	s.must("tag create order --order trend " + first[1]) // as in idworker tag create --first

	s.must("provision " + ttl)
	r := command(t, "serve", "--server", s.url, "--log-level", "error", "--worker-id", heldID(s))
	s.must(strings.Join(named(t, r, "idworker workers"), " "))
}

// heldID returns the worker ID of the serving process.
func heldID(s *site) string {
	s.Helper()
	found := regexp.MustCompile(`"worker(?:_id)?":\s?(\d+)`).FindStringSubmatch(s.must("workers --json"))
	if found == nil {
		s.Fatal("no worker ID in ", s.must("workers --json"))
	}
	return found[1]
}

// bareSite is a server without streams and buckets.
func bareSite(t *testing.T) (*site, jetstream.JetStream) {
	t.Helper()
	ns := natstest.Start(t)
	return &site{T: t, nats: ns, url: ns.URL()}, natstest.JetStream(t, ns.Connect(t))
}

func remediesOfNothing(t *testing.T) {
	t.Parallel()
	s, js := bareSite(t)
	s.remedied("tag ls", "idworker provision")
	// Leases that never expire.
	if err := js.DeleteKeyValue(t.Context(), "ids_workers"); err != nil {
		t.Fatal(err)
	}
	natstest.CreateBucket(t, js, "ids_workers")
	named(t, s.at("serve"), "idworker provision sets the TTL")
	s.must("provision")
	// No worker serves.
	named(t, s.at("doctor --role caller"), "idworker serve")
	for _, get := range []string{"get order", "get --snowflake"} {
		for _, part := range []string{"no worker runs", "JetStream", "idworker status", "idworker serve --server " + s.url} {
			named(t, s.at(get), part)
		}
	}
	s.serve()
	s.must("tag create order")
	s.answered("get order")
	natstest.Eventually(t, "a worker answers", func() bool { return s.at("doctor --role caller").code == exitOK })
}

// registerAt returns the last sequence of the register.
func registerAt(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_ids_register")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// remediesOfSettings loses the bucket of settings, or finds an empty one in its
// place, without a backup.
func remediesOfSettings(t *testing.T) {
	t.Parallel()
	for _, emptied := range []bool{false, true} {
		s, js := bareSite(t)
		s.serve()
		s.answered("tag create order")
		before := s.ids(s.answered("get order 500").stdout)
		s.stop()
		if err := js.DeleteKeyValue(t.Context(), "ids_config"); err != nil {
			t.Fatal(err)
		}
		if emptied {
			natstest.Eventually(t, "the bucket is there, and empty", func() bool {
				return kv.Ensure(t.Context(), js, agreement.Bucket(messages.DefaultPrefix, 1)) == nil
			})
		}
		s.must(strings.Join(named(t, s.at("serve"), "idworker tag raise --all"), " ") + " --yes")
		s.serve()
		if ids := s.ids(s.answered("get order").stdout); ids[0] <= before[len(before)-1] {
			t.Errorf("DUPLICATE: %d, after %d", ids[0], before[len(before)-1])
		}
		s.stop()
	}
}

func remediesOfCounters(t *testing.T) {
	t.Parallel()
	s, js := bareSite(t)
	witness := []string{"--witness", filepath.Join(t.TempDir(), "witness")}
	last := make(map[string]int64) // by tag
	higher := func(get string) {
		t.Helper()
		tag, _, _ := strings.Cut(get, " ")
		ids := s.ids(s.answered("get " + get).stdout)
		if ids[0] <= last[tag] {
			t.Errorf("DUPLICATE: %d of %s, after IDs up to %d", ids[0], tag, last[tag])
		}
		last[tag] = ids[len(ids)-1]
	}
	s.serve(witness...)
	s.answered("tag create order --step 10")
	s.must("tag create chat.* --template --step 10")
	s.must("tag create day.* --template --step 10")
	higher("order 500")
	higher("chat.before")
	older := natstest.TakeSnapshot(t, js.Conn(), "KV_ids_register")
	// From buffers at first.
	for at := registerAt(t, js); registerAt(t, js) == at; {
		higher("order 500")
	}
	higher("chat.after")
	higher("day.after")
	s.must("tag rm day.* --yes")
	s.stop()
	older.Restore(t, js.Conn())
	raise := func(refused result) {
		t.Helper()
		s.must(strings.Join(named(t, refused, "idworker tag raise --all"), " ") + " --yes")
	}
	s.serve(witness...) // stays up, and grants nothing
	stopped := func() {
		t.Helper()
		natstest.Eventually(t, "the loader has stopped", func() bool {
			return strings.Contains(s.at("doctor").stdout, ": grants nothing: ")
		})
	}
	stopped()
	raise(s.at("doctor"))
	s.must("tag create day.* --template --step 10")
	for _, tag := range []string{"order", "chat.before", "chat.after", "day.after"} {
		higher(tag)
	}

	exported := writeFile(t, s.must("tag export"))
	if err := js.DeleteKeyValue(t.Context(), "ids_register"); err != nil {
		t.Fatal(err)
	}
	stopped()
	raise(s.at("doctor"))
	s.must("tag import " + exported)
	higher("order")
	higher("chat.after")
	s.stop()
	if err := js.DeleteKeyValue(t.Context(), "ids_register"); err != nil {
		t.Fatal(err)
	}
	// Nothing but a raise makes the register again.
	const missing = "bucket ids_register is missing"
	for part, code := range map[string]int{"all": exitFailure, "ids": exitFailure, "enrich": exitOK} {
		if r := s.at("provision --part " + part); r.code != code || code != exitOK && !strings.Contains(r.stderr, missing) {
			t.Errorf("provision --part %s: %+v", part, r)
		}
	}
	if _, err := js.KeyValue(t.Context(), "ids_register"); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("there is a bucket again: %v", err)
	}
	raise(s.at("serve", witness...))
	s.must("provision")
	s.must("tag import " + exported)
	s.serve(witness...)
	higher("order")
}

// remediesOfStore does not run idworker tag export, because it has no database.
func remediesOfStore(t *testing.T) {
	t.Parallel()
	s, js := bareSite(t)
	s.serve()
	s.answered("tag create order --first 100")
	list := writeFile(t, s.must("tag export"))
	s.stop()
	agreed, err := js.KeyValue(t.Context(), "ids_config")
	if err == nil {
		_, err = agreed.PutString(t.Context(), "store", "mysql ids.leaf_alloc")
	}
	if err != nil {
		t.Fatal(err)
	}
	named(t, s.at("tag import", list), "idworker tag import --switch-store")
	s.must(strings.Join(named(t, s.at("serve"), "idworker tag import --switch-store"), " "), list)
	s.serve()
	s.answered("get order")
}

func remediesOfFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		flags []string
		do    func(data, backup, other string)
	}{
		{"put back twice", nil, func(data, backup, _ string) { copies(t, data, backup) }},
		{"put back, with another prefix", []string{"--prefix", "mine"}, func(data, backup, _ string) { copies(t, data, backup) }},
		{"empty", nil, func(data, _, _ string) { copies(t, data, t.TempDir()) }},
		{"no witness", nil, func(data, _, _ string) { _ = os.Remove(data + ".witness") }},
		{"put back, the witness of another folder", nil, func(data, backup, other string) {
			copies(t, data, backup)
			copyFile(t, data+".witness", other+".witness")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			data, backup, other := filepath.Join(root, "data"), filepath.Join(root, "backup"), filepath.Join(root, "other")
			given := make(map[int64]bool)
			serves := func(data string, given map[int64]bool) { t.Helper(); servesFolder(t, data, given, nil, c.flags...) }
			serves(data, given)
			copies(t, backup, data)
			serves(data, given)
			serves(other, make(map[int64]bool))
			c.do(data, backup, other)
			if c.name == "put back twice" { // the same number twice could repeat IDs
				by := []string{"tag", "raise", "--all", "--by", "1000000000", "--yes", "--data", data}
				if r := command(t, by...); r.code != exitOK {
					t.Fatalf("raise by a number: %+v", r)
				}
				serves(data, given)
				c.do(data, backup, other)
				if r := command(t, by...); r.code != exitUsage || !strings.Contains(r.stderr, "an earlier raise was undone") || !strings.Contains(r.stderr, "idworker tag raise --all;") {
					t.Errorf("the same number again: %+v", r)
				}
			}
			refused := command(t, slices.Concat([]string{"serve", "--log-level", "error", "--listen", freeport.Address(t), "--data", data}, c.flags)...)
			remedy := strings.TrimSpace("idworker tag raise --all --data " + data + " " + strings.Join(c.flags, " "))
			args := append(named(t, refused, remedy), "--yes")
			if r := command(t, args...); r.code != exitOK {
				t.Fatalf("idworker %s: %+v", strings.Join(args, " "), r)
			}
			serves(data, given)
		})
	}
}

// servesFolder serves a folder, takes IDs that were not given before, and then
// runs a command, if it is not nil.
func servesFolder(t *testing.T, data string, given map[int64]bool, command []string, flags ...string) {
	t.Helper()
	address := freeport.Address(t)
	s := &site{T: t, url: "nats://" + address}
	s.stop = s.background(slices.Concat([]string{"serve", "--log-level", "error", "--listen", address, "--data", data}, flags)...)
	defer s.stop()
	s.answered("tag create order --if-missing", flags...) // it may be lost
	for _, id := range s.ids(s.answered("get order 50", flags...).stdout) {
		if given[id] {
			t.Errorf("DUPLICATE: %d", id)
		}
		given[id] = true
	}
	if command != nil {
		s.must(command[0], command[1:]...)
	}
}

// TestRestoreFolder: a data folder is lost, with its witness or without, and
// restored from a backup. The second time, the server has made a new installation
// in its place. No ID comes that was handed out before.
func TestRestoreFolder(t *testing.T) {
	t.Parallel()
	data, backup, given := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup"), make(map[int64]bool)
	servesFolder(t, data, given, []string{"backup", backup})
	servesFolder(t, data, given, nil)
	for _, lost := range [][]string{{data}, {data, data + ".witness"}} {
		for _, path := range lost {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
		restore := []string{"restore", backup, "--data", data, "--yes"}
		if len(lost) > 1 {
			other := make(map[int64]bool)
			servesFolder(t, data, other, nil)
			maps.Copy(given, other)
			_, id, _ := strings.Cut(command(t, restore...).stderr, "--replace-installation ")
			restore = append(restore, "--replace-installation", strings.Fields(id + " none")[0])
		}
		r := command(t, restore...)
		if r.code != exitOK || !strings.Contains(r.stdout, data+" can be served again") {
			t.Fatalf("restore: %+v", r)
		}
		if r := command(t, restore...); r.code != exitOK || !strings.Contains(r.stdout, "nothing is missing") {
			t.Fatalf("restored again: %+v", r)
		}
		servesFolder(t, data, given, nil)
	}
}

// copies replaces a folder by a copy of another.
func copies(t *testing.T, to, from string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemediesAreTried: TestRemedies runs the commands in hints, or its comment
// has the reason.
func TestRemediesAreTried(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("problems.go")
	if err != nil {
		t.Fatal(err)
	}
	tried, err := os.ReadFile("remedies_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`[^/] idworker ((?:tag )?[a-z]+(?: --[a-z-]+)*)`).FindAllStringSubmatch(string(source), -1) {
		if command := found[1]; command != "serves" && !strings.Contains(string(tried), "idworker "+command) && command != "enrich --resume-after" {
			t.Errorf("a hint names idworker %s, which is not run", command)
		}
	}
}
