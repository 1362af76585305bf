package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/process"
)

// maxStep is the size of segments and the largest batch in all runs.
const maxStep = "1000"

// builds are idworker with coverage counters and without, in a folder.
type builds struct {
	dir, covered, plain string
	source              *source
}

func build(dir string) (b builds, err error) {
	b.dir = dir
	if b.plain, err = process.Build(dir, "plain", process.Command); err != nil {
		return b, err
	}
	packages := strings.TrimSuffix(process.Command, "cmd/idworker") + "..."
	b.covered, err = process.Build(dir, "covered", process.Command, "-cover", "-covermode=atomic", "-coverpkg="+packages)
	if err != nil {
		return b, err
	}
	b.source, err = load()
	return b, err
}

// functions runs a walk, and returns its functions in order.
func (b builds) functions(w course) ([]*function, error) {
	n, profile, err := b.run(w)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.title, err)
	}
	counters, err := b.source.count(profile)
	if err != nil {
		return nil, err
	}
	return b.source.inOrder(atLeast(counters, n), entries)
}

// run runs a walk. It returns the number of requests or loads, and the profile.
func (b builds) run(w course) (n int, profile string, err error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return 0, "", err
	}
	s := covered{caller: b.plain}
	for _, address := range []*string{&s.nats, &s.http} {
		port, err := freeport.Take()
		if err != nil {
			return 0, "", err
		}
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	s.process, err = process.Program{Binary: b.covered, Env: []string{"GOCOVERDIR=" + dir}}.Launch("serve", "--listen", s.nats, "--http", s.http, "--data", filepath.Join(dir, "data"),
		"--max-step", maxStep, "--max-batch", maxStep)
	if err != nil {
		return 0, "", err
	}
	defer s.process.Kill()
	if n, err = s.drive(w); err == nil && n == 0 {
		err = errors.New("nothing to count")
	}
	if err != nil {
		return 0, "", fmt.Errorf("%w\n%s", err, s.process.Stderr.Tail())
	}
	s.process.Signal(syscall.SIGTERM)
	<-s.process.Ended
	text := filepath.Join(dir, "profile")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i", dir, "-o", text).CombinedOutput(); err != nil {
		return 0, "", fmt.Errorf("go tool covdata: %w\n%s", err, out)
	}
	counters, err := os.ReadFile(text)
	return n, string(counters), err
}

// covered is idworker serve with coverage counters.
type covered struct {
	process    *process.Running
	nats, http string // its addresses
	caller     string // the program without counters
}

// drive makes a walk's requests.
func (s covered) drive(w course) (n int, err error) {
	if err := s.awaitReady(); err != nil {
		return 0, err
	}
	var tags []string
	for i := range w.tags {
		tags = append(tags, fmt.Sprintf("tag%d", i))
		if _, err := s.call("tag", "create", tags[i], "--order", w.order, "--max-step", maxStep); err != nil {
			return 0, err
		}
	}
	if w.counts == one {
		_, err := s.call("get", tags[0])
		return 1, err
	}
	out, err := s.call(append(append([]string{"bench", "--callers", "1", "--duration", "5s", "--json"}, w.bench...), tags...)...)
	if err != nil {
		return 0, err
	}
	switch w.counts {
	case loads:
		return s.loads()
	case refills:
		return s.refills()
	}
	var report struct{ Requests int }
	err = json.Unmarshal(out, &report)
	return report.Requests, err
}

const readyWithin = 2 * time.Minute

func (s covered) awaitReady() error {
	for end := time.Now().Add(readyWithin); time.Now().Before(end) && !s.process.HasEnded(); time.Sleep(100 * time.Millisecond) {
		response, err := http.Get("http://" + s.http + "/readyz")
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
	}
	return errors.New("idworker serve is not ready")
}

// call runs a command of idworker, and returns its output.
func (s covered) call(args ...string) ([]byte, error) {
	p, err := process.Program{Binary: s.caller}.Run(append(args, "--server", "nats://"+s.nats)...)
	if err != nil {
		return nil, err
	}
	return []byte(p.Stdout.String()), nil
}

// loads returns the number of store calls for a segment so far.
func (s covered) loads() (n int, err error) {
	response, err := http.Get("http://" + s.http + "/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return 0, err
	}
	for _, outcome := range families["idworker_loads_total"].GetMetric() {
		n += int(outcome.GetCounter().GetValue())
	}
	return n, nil
}

// refills returns the number of loads through the load stream so far. At most a
// third of the loads may have taken the other way.
func (s covered) refills() (int, error) {
	all, err := s.loads()
	if err != nil {
		return 0, err
	}
	conn, err := nats.Connect("nats://" + s.nats)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return 0, err
	}
	stream, err := js.Stream(context.Background(), "IDS_LOAD")
	if err != nil {
		return 0, err
	}
	n := int(stream.CachedInfo().State.LastSeq)
	if 3*n < 2*all {
		return 0, fmt.Errorf("only %d of %d loads went through IDS_LOAD", n, all)
	}
	return n, nil
}
