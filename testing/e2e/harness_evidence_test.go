package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/history"
)

// The verdicts on an installation whose data went back.
const (
	serves     = "serves"
	stopped    = "stopped"     // all loaders run, and grant nothing
	refused    = "refused"     // the process ends
	notCovered = "not covered" // IDs come twice until somebody who remembers is heard
)

// evidenceSite is an installation on real nats-servers, under load, whose data
// goes back.
type evidenceSite struct {
	*judged
	servers []*production
	copies  []string // older ones of their folders
	at      uint64   // sequence of the register after the latest loss

	loaders, workers []*process
	state            string // the state folder of all processes; empty: each has a new one
}

// orderTag is a trend tag.
const orderTag = "order"

// newEvidenceSite starts nats-servers, two loaders, two workers and callers.
func newEvidenceSite(t *testing.T, servers int) *evidenceSite {
	t.Helper()
	s := &evidenceSite{servers: startNATS(t, servers), copies: make([]string, servers)}
	s.begin(t)
	return s
}

// begin makes the installation and starts its processes.
func (s *evidenceSite) begin(t *testing.T) {
	t.Helper()
	var urls []string
	for _, n := range s.servers {
		urls = append(urls, "nats://"+n.address)
	}
	url := strings.Join(urls, ",")
	s.judged = newJudged(t, url, connect(t, url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond)))
	settings{}.succeeds(t, "provision", "--server", url, "--replicas", fmt.Sprint(len(s.servers)))
	must(t, "tag", "create", "--server", url, orderTag, "--step", "10")
	must(t, "tag", "create", "--server", url, strictTag, "--order", "strict")
	s.startLoaders(nil, nil)
	s.startWorkers(2)
	s.ask(t, 2, orderTag)
	s.ask(t, 1, strictTag)
	s.served(t, orderTag, strictTag)
}

// startNATS starts nats-servers, of which several are a cluster.
func startNATS(t *testing.T, servers int) (all []*production) {
	t.Helper()
	routes := make([]string, servers)
	for i := range routes {
		routes[i] = freeport.Address(t)
	}
	for i, route := range routes {
		dir := t.TempDir()
		p := &production{t: t, conf: filepath.Join(dir, "nats.conf"), address: freeport.Address(t), data: filepath.Join(dir, "data")}
		conf := fmt.Sprintf("server_name: n%d\njetstream { store_dir: %q }\n", i, p.data)
		if servers > 1 {
			conf += fmt.Sprintf("cluster { name: e2e, listen: %q, routes: [nats://%s] }\n", route, strings.Join(routes, ", nats://"))
		}
		write(t, dir, "nats.conf", conf)
		p.start()
		all = append(all, p)
	}
	return all
}

// launch starts a process that finds no file of an earlier one, unless the site
// has a state folder.
func (s *evidenceSite) launch(args ...string) *process {
	s.t.Helper()
	state := s.state
	if state == "" {
		state = s.t.TempDir()
	}
	env := []string{"HOME=" + state, "XDG_STATE_HOME=" + state, "STATE_DIRECTORY=" + state}
	return settings{env: env}.launch(s.t, append([]string{"serve", "--server", s.url, "--wait", "500ms"}, args...)...)
}

// startLoaders starts a loader with each of these arguments, and kills those that
// ran before.
func (s *evidenceSite) startLoaders(all ...[]string) {
	s.t.Helper()
	kill(s.loaders)
	s.loaders = nil
	for _, args := range all {
		s.loaders = append(s.loaders, s.launch(append([]string{"--role", "loader"}, args...)...))
	}
}

func (s *evidenceSite) startWorkers(n int) {
	s.t.Helper()
	for range n {
		w := s.launch("--role", "worker")
		w.serving()
		s.workers = append(s.workers, w)
	}
}

func kill(all []*process) {
	for _, p := range all {
		p.kill()
	}
}

// sequence returns the last sequence of the register, if a server answers.
func (s *evidenceSite) sequence() (at uint64, ok bool) {
	ctx, cancel := context.WithTimeout(s.t.Context(), askAgain)
	defer cancel()
	stream, err := s.js.Stream(ctx, registerBucket)
	if err != nil {
		return 0, false
	}
	return stream.CachedInfo().State.LastSeq, true
}

// grow waits until so many more ranges were granted.
func (s *evidenceSite) grow(n uint64) {
	s.t.Helper()
	var from uint64
	natstest.Eventually(s.t, "the register grows", func() bool {
		at, ok := s.sequence()
		if ok && from == 0 {
			from = at
		}
		return ok && at >= from+n
	})
}

// killServers ends the servers the way a power cut does.
func (s *evidenceSite) killServers() {
	for _, n := range s.servers {
		n.server.kill()
	}
}

// startServers starts some of the servers again.
func (s *evidenceSite) startServers(which ...int) {
	s.t.Helper()
	for _, i := range which {
		s.servers[i].start()
	}
	s.fromHere()
}

// fromHere has judge count the grants from now on.
func (s *evidenceSite) fromHere() {
	s.t.Helper()
	natstest.Eventually(s.t, "the register can be read", func() (ok bool) {
		s.at, ok = s.sequence()
		return ok
	})
}

// all are the numbers of all servers.
func (s *evidenceSite) all() (which []int) {
	for i := range s.servers {
		which = append(which, i)
	}
	return which
}

// keep keeps copies of the servers' folders, and returns when more was granted,
// which can be lost.
func (s *evidenceSite) keep() {
	s.t.Helper()
	s.killServers()
	for i, n := range s.servers {
		s.copies[i] = filepath.Join(s.t.TempDir(), "copy")
		if err := os.CopyFS(s.copies[i], os.DirFS(n.data)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.startServers(s.all()...)
	s.heldByAll(s.t, s.workers, orderTag)
	s.grow(100)
}

// putBack kills all servers, and starts some of them with the older copies of
// their data.
func (s *evidenceSite) putBack(which ...int) {
	s.t.Helper()
	s.killServers()
	for _, i := range which {
		data := s.servers[i].data
		if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(s.copies[i]))); err != nil {
			s.t.Fatal(err)
		}
	}
	s.startServers(which...)
}

// found are the reports of all processes that answer.
func (s *evidenceSite) found() []worker.Report {
	all, _ := worker.AskReports(s.t.Context(), s.js.Conn(), messages.DefaultPrefix, nil)
	return all
}

// stoppedLoaders counts the loaders that grant nothing.
func (s *evidenceSite) stoppedLoaders() (n int) {
	for _, r := range s.found() {
		if r.Loads() && r.Stopped != "" {
			n++
		}
	}
	return n
}

// enoughGrants are more than were in flight when loaders stopped.
const enoughGrants = 20

// judge waits until it shows what the loaders do after the latest loss.
func (s *evidenceSite) judge() (verdict string) {
	s.t.Helper()
	natstest.Eventually(s.t, "loaders stop or grant", func() bool {
		at, ok := s.sequence()
		switch {
		case slices.ContainsFunc(s.loaders, (*process).hasEnded):
			verdict = refused
		case ok && at >= s.at+enoughGrants:
			verdict = serves
		case s.stoppedLoaders() == len(s.loaders):
			verdict = stopped
		}
		return verdict != ""
	})
	return verdict
}

// after waits until a time has passed since another.
func after(t testing.TB, since time.Time, d time.Duration) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%v have passed", d), func() bool { return time.Since(since) >= d })
}

// ordered fails the test for IDs of the strict tag that were answered out of
// order.
func (s *judged) ordered(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []history.Call
	for _, c := range s.calls {
		if c.Tag == strictTag {
			calls = append(calls, c)
		}
	}
	if err := order.Check(calls); err != nil {
		t.Error(err)
	}
}

// answers is how many IDs callers have got.
func (s *judged) answers() (ids int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		ids += c.Count
	}
	return ids
}

// raise raises all tags. Loaders that have stopped grant again without a restart.
func (s *evidenceSite) raise(args ...string) {
	s.t.Helper()
	raiseAll(s.t, append([]string{"--server", s.url}, args...)...)
	s.succeed(s.t)
	succeeded := time.Now()
	s.fromHere()
	if got := s.judge(); got != serves {
		s.t.Errorf("%s after the raise", got)
	}
	s.served(s.t, orderTag, strictTag)
	if n := s.stoppedLoaders(); n > 0 {
		s.t.Errorf("%d loaders are stopped after the raise", n)
	}
	s.t.Logf("everything serves %v after the raise", time.Since(succeeded).Round(100*time.Millisecond))
}

// revert rewrites the register's messages on the disk of its only server, which
// has to be down: all entries but the one that was written last are as in the
// older copy, those without are gone, and the last sequence stays.
func (s *evidenceSite) revert(without ...string) {
	s.t.Helper()
	now, early := readRegister(s.t, s.servers[0].data), readRegister(s.t, s.copies[0])
	var last uint64
	for seq := range now.messages {
		last = max(last, seq)
	}
	messages := map[uint64]*jetstream.RawStreamMsg{last: now.messages[last]}
	for seq, m := range early.messages {
		if m.Subject != now.messages[last].Subject && !slices.Contains(without, strings.TrimPrefix(m.Subject, registerSubjects)) {
			messages[seq] = m
		}
	}
	cfg := now.config
	cfg.DenyDelete, cfg.DenyPurge = false, false
	data := s.t.TempDir()
	n := natstest.Start(s.t, func(o *server.Options) { o.StoreDir = data })
	js := natstest.JetStream(s.t, n.Connect(s.t))
	stream, err := js.CreateStream(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	const filler = registerSubjects + "filler"
	for seq := max(cfg.FirstSeq, 1); seq <= last; seq++ {
		subject, value := filler, []byte(nil)
		if m := messages[seq]; m != nil {
			subject, value = m.Subject, m.Data
		}
		if _, err := js.PublishAsync(subject, value); err != nil {
			s.t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(natstest.Patience):
		s.t.Fatal("messages are not stored")
	}
	if err := stream.Purge(s.t.Context(), jetstream.WithPurgeSubject(filler)); err != nil {
		s.t.Fatal(err)
	}
	info, err := stream.Info(s.t.Context())
	if err != nil || info.State.LastSeq != last || info.State.Msgs != uint64(len(messages)) {
		s.t.Fatalf("%v: %+v, want %d messages up to %d", err, info.State, len(messages), last)
	}
	n.Stop()
	to := streamFolder(s.servers[0].data, registerBucket)
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(streamFolder(data, registerBucket)))); err != nil {
		s.t.Fatal(err)
	}
}

// registerSubjects begin the subjects of the register's entries.
const registerSubjects = "$KV.ids_register."

// streamFolder has the messages of a stream, in the data of a nats-server.
func streamFolder(data, stream string) string {
	return filepath.Join(data, "jetstream/$G/streams", stream, "msgs")
}

// registerContent is a register as a server reads it.
type registerContent struct {
	config   jetstream.StreamConfig
	messages map[uint64]*jetstream.RawStreamMsg
}

// readRegister reads the register in a copy of a server's data.
func readRegister(t *testing.T, data string) registerContent {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "read")
	if err := os.CopyFS(folder, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	n := natstest.Start(t, func(o *server.Options) { o.StoreDir = folder })
	defer n.Stop()
	stream, err := natstest.JetStream(t, n.Connect(t)).Stream(t.Context(), registerBucket)
	if err != nil {
		t.Fatal(err)
	}
	info := stream.CachedInfo()
	c := registerContent{info.Config, make(map[uint64]*jetstream.RawStreamMsg)}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		switch m, err := stream.GetMsg(t.Context(), seq); {
		case err == nil:
			c.messages[seq] = m
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			t.Fatal(err)
		}
	}
	return c
}

// impostor has a worker's password, and claims what it likes.
type impostor struct {
	site                  *evidenceSite
	instance              string
	installation, created string
	role                  worker.Role
	conn                  *nats.Conn
}

// newImpostor names the site's own installation.
func (s *evidenceSite) newImpostor(instance string) *impostor {
	s.t.Helper()
	i := &impostor{site: s, instance: instance, role: worker.RoleWorker, conn: connect(s.t, s.url, nats.MaxReconnects(-1))}
	natstest.Eventually(s.t, "a process names its installation", func() bool {
		all, _ := worker.ListProcesses(s.t.Context(), s.js.Conn(), messages.DefaultPrefix)
		if len(all) > 0 {
			i.installation, i.created = all[0].Installation, all[0].Created.UTC().Format(time.RFC3339Nano)
		}
		return len(all) > 0
	})
	return i
}

// answer answers the question for reports with a claim, until it is stopped.
func (i *impostor) answer(c store.Claim) (stop func()) {
	t := i.site.t
	t.Helper()
	c.By = i.instance
	service, err := micro.AddService(i.conn, micro.Config{
		Name: worker.ProcessServiceName, Version: "0.3.0", QueueGroupDisabled: true,
		Metadata: map[string]string{
			"instance": i.instance, "installation": i.installation, "created": i.created,
			"host": "elsewhere", "role": string(i.role), "store": "JetStream", "prefix": "ids",
		},
		StatsHandler: func(*micro.Endpoint) any {
			return worker.Report{
				Instance: i.instance, Role: i.role, Version: "0.3.0", Time: time.Now(), Serving: true,
				Claims: []store.Claim{c}, BufferFloor: c.Floor,
				Stats: worker.Stats{Instance: i.instance, Installation: i.installation, SupplyFigures: worker.SupplyFigures{Tags: []worker.TagStats{}}},
			}
		},
	})
	if err == nil {
		err = service.AddEndpoint("process", micro.HandlerFunc(func(r micro.Request) { _ = r.Respond([]byte(i.instance)) }),
			micro.WithEndpointSubject("ids.process.worker"))
	}
	if err != nil {
		t.Fatal(err)
	}
	flush(t, i.conn)
	return func() {
		_ = service.Stop()
		flush(t, i.conn)
	}
}

// send sends a claim to all loaders.
func (i *impostor) send(c store.Claim) {
	t := i.site.t
	t.Helper()
	c.By = i.instance
	data, err := json.Marshal(map[string]any{
		"instance": i.instance, "installation": i.installation, "created": i.created, "claims": []store.Claim{c},
	})
	if err == nil {
		err = i.conn.Publish("ids.process.loader", data)
	}
	if err != nil {
		t.Fatal(err)
	}
	flush(t, i.conn)
}
