package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/nemesis"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tlstest"
)

// settingsStory is about what no process can be made to do on a whole machine: a full disk, a wrong clock, and a layout
// that ends. A device that is full, a binary whose clock can be set, and an epoch cause them.
func settingsStory(t *testing.T) {
	s := newSite(t)
	clock := nemesis.ClockFile{Path: filepath.Join(s.dir, "clock")}
	variant := process.Program{Binary: withClock(t), Dir: s.dir, Env: []string{"NATS_URL=nats://" + s.address, clock.Env()}}
	serve := func() *program { return s.launch("clock", variant, "serve") }
	right := serve()
	disk := s.newDisk()
	s.healthy(30*time.Minute, nil)

	var ending, secure *program
	var second func()
	restart := func(ahead time.Duration) func() {
		return func() {
			s.stop(right)
			if err := clock.Set(ahead, 0); err != nil {
				t.Fatal(err)
			}
			right = serve()
		}
	}
	s.all([]fault{{
		alerts: []string{"ClockOff"},
		what:   "a worker started while its clock was 3 s ahead (a binary whose clock can be set)",
		cause:  restart(3 * time.Second),
		cure:   restart(0),
		pace:   250 * time.Millisecond,
	}, {
		alerts: []string{"ReplicasDiffer"},
		what:   "a second server answers with a replica that lacks a message (a program in the system account)",
		cause: func() {
			s.stop(right)
			second = s.secondServer()
			right = serve()
		},
		cure: func() {
			s.stop(right)
			second()
			right = serve()
		},
		pace: 250 * time.Millisecond,
	}, {
		alerts: []string{"DiskFull"},
		what:   "the device of a data folder is full",
		cause:  disk.fill,
		cure:   disk.makeRoom,
		pace:   pace,
	}, {
		alerts: []string{"LayoutRunsOut"},
		what:   "the layout ends in 100 days (a setting: its epoch)",
		cause: func() { // 40 bits of milliseconds are 35 years
			epoch := time.Now().UnixMilli() - 1<<40 + (100 * 24 * time.Hour).Milliseconds()
			ending = s.ready("ending", "serve", "--new", "--prefix", "ending", "--layout", fmt.Sprintf("40:1ms/w11/s12@%d", epoch))
		},
		cure: func() { // another installation, with another layout
			s.stop(ending)
			s.ready("following", "serve", "--new", "--prefix", "following")
		},
	}, {
		alerts: []string{"CertificateEnds"},
		what:   "the certificate of --api expired an hour ago",
		cause: func() {
			s.certificate(-time.Hour)
			secure = s.ready("secure", "serve", "--role", "worker", "--api", freeport.Address(t),
				"--api-tls-cert", filepath.Join(s.dir, "api.crt"), "--api-tls-key", filepath.Join(s.dir, "api.key"))
		},
		cure: func() {
			s.certificate(365 * 24 * time.Hour)
			secure.Signal(syscall.SIGHUP)
		},
		pace: pace,
	}})
}

// secondServer answers as a NATS server does that has a replica of the config bucket without one of its messages, until
// the returned function is called.
func (s *site) secondServer() (stop func()) {
	s.t.Helper()
	js := natstest.JetStream(s.t, s.connect())
	stream, err := js.Stream(s.t.Context(), "KV_ids_config")
	if err != nil {
		s.t.Fatal(err)
	}
	system, err := nats.Connect("nats://"+s.address, nats.UserInfo("sys", "sys"))
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = system.Subscribe(durability.AskServers, func(msg *nats.Msg) {
		info, err := stream.Info(context.Background())
		if err != nil {
			return // the site ends
		}
		created, err := json.Marshal(info.Created)
		if err != nil {
			s.t.Error(err)
		}
		_ = msg.Respond(fmt.Appendf(nil, `{"server":{"name":"second"},"data":{"account_details":[{"stream_detail":[{"name":"KV_ids_config","created":%s,"state":{"messages":%d,"last_seq":%d}}]}]}}`,
			created, info.State.Msgs-1, info.State.LastSeq))
	})
	if err == nil {
		err = system.Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return system.Close
}

// certificate writes a certificate and its key, api.crt and api.key, which began to be valid two hours ago.
func (s *site) certificate(remains time.Duration) {
	s.t.Helper()
	public, private := tlstest.Certificate(s.t, 1, time.Now().Add(-2*time.Hour), time.Now().Add(remains))
	s.file("api.key", private)
	s.file("api.crt", public)
}

// withClock builds idworker so that its clock can be set.
func withClock(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	overlay, err := nemesis.ClockOverlay(dir)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := process.Build(dir, "idworker", process.Command, "-C", "../..", overlay)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// disk is an idworker with an embedded NATS server, whose data folder can be full.
type disk struct {
	s       *site
	data    string
	address string
	program *program
}

func (s *site) newDisk() *disk {
	s.t.Helper()
	if _, err := os.Stat("/dev/full"); err != nil {
		s.t.Skip("no /dev/full")
	}
	d := &disk{s: s, data: filepath.Join(s.dir, "embedded"), address: freeport.Address(s.t)}
	d.start()
	return d
}

func (d *disk) start() {
	d.program = d.s.launch("embedded", process.Program{Binary: idworker, Dir: d.s.dir}, "serve", "--listen", d.address, "--data", d.data)
}

// The files of a full device, and where the server looks whether there is space again.
func (d *disk) full() string  { return filepath.Join(d.data, "jetstream/$G/streams/S/msgs/2.blk") }
func (d *disk) taken() string { return filepath.Join(d.data, "idworker.room") }

// fill has a stream of the server continue in a file that cannot be written.
func (d *disk) fill() {
	t := d.s.t
	nc, err := nats.Connect("nats://" + d.address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js := natstest.JetStream(t, nc)
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.FileStorage})
	if err := os.MkdirAll(filepath.Join(d.taken(), "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", d.full()); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the server cannot write", func() bool {
		err := nc.Publish("s", make([]byte, 512<<10))
		d.s.scrape()
		return err != nil || len(d.s.query("idworker_nats_unwritten == 1")) > 0
	})
}

// makeRoom ends that, and with it the process, which a supervisor starts again.
func (d *disk) makeRoom() {
	if err := os.RemoveAll(d.taken()); err != nil {
		d.s.t.Fatal(err)
	}
	d.program.Wait(d.s.t)
	if err := os.Remove(d.full()); err != nil && !os.IsNotExist(err) {
		d.s.t.Fatal(err)
	}
	d.s.forget(d.program.http)
	d.start()
}
