package nemesis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

// natsServers are three nats-servers whose routes go through proxies. A server with
// a higher number makes the route to a server with a lower number; they
// advertise no addresses that would lead past the proxies.
type natsServers struct {
	programs  []*Supervised
	addresses []string // of the servers, for clients that no fault affects
	monitors  []string // of the servers, for HTTP
	disks     []string // folder of each server's data
	images    string   // folder of the disks' images, or empty
	ext4      bool     // the disks are ext4, whose power can be cut
	limited   bool     // each is a disk of its own, of limited size
	conn      *nats.Conn
	js        jetstream.JetStream
	seen      atomic.Uint64 // the highest sequence of the register, since the last loss was decided
}

// diskSize is how much a server can store, if it has a disk of its own.
const diskSize = 768 << 20

// The users of the servers' accounts. The system account removes servers.
const (
	accounts = `
accounts {
  $SYS: { users: [ { user: system, password: system } ] }
  APP: { jetstream: enabled, users: [ { user: app, password: app } ] }
}
no_auth_user: app
`
	appAccount, systemAccount = "APP", "$SYS"
)

// startCluster starts the servers.
func (r *Run) startCluster() {
	c := &natsServers{limited: true, ext4: true, images: filepath.Join(r.work, "images")}
	r.cluster = c
	r.must(os.Mkdir(c.images, 0o700))
	if err := mountDisk(c.images, len(servers)*diskSize); err != nil {
		c.images, c.ext4 = "", false
	}
	var listen []string
	for range servers {
		c.addresses = append(c.addresses, freeport.Address(r.T))
		c.monitors = append(c.monitors, freeport.Address(r.T))
		listen = append(listen, freeport.Address(r.T))
	}
	for i, name := range servers {
		to := []string{fmt.Sprintf("%q", "nats://"+listen[i])} // a server ignores itself, but needs a route to be a cluster
		for j := range i {
			to = append(to, fmt.Sprintf("%q", "nats://"+r.link(name+"-"+servers[j], listen[j])))
		}
		disk := filepath.Join(r.work, name)
		c.disks = append(c.disks, disk)
		r.must(os.Mkdir(disk, 0o700))
		if err := c.addDisk(name); err != nil {
			c.limited = false
			r.note("%s has no disk of its own: %v", name, err)
		}
		conf := filepath.Join(r.work, name+".conf")
		text := fmt.Sprintf(`
server_name: %s
listen: %q
http: %q
jetstream { store_dir: %q, sync_interval: %s, max_file_store: 650MB, max_memory_store: 64MB }
cluster { name: nemesis, ping_interval: "500ms", ping_max: 3, listen: %q, advertise: "127.0.0.1:1", no_advertise: true, routes: [%s] }
`, name, c.addresses[i], c.monitors[i], filepath.Join(disk, "data"), r.Sync, listen[i], strings.Join(to, ", ")) + accounts
		r.must(os.WriteFile(conf, []byte(text), 0o600))
		c.programs = append(c.programs, r.supervise(name, process.Program{Binary: r.binaries.server}, "-c", conf))
	}
	r.must(c.connect())
}

// connect connects past all proxies, and waits for the cluster.
func (c *natsServers) connect() (err error) {
	c.conn, err = nats.Connect(strings.Join(c.urls(), ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*ms), nats.RetryOnFailedConnect(true),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.Name("nemesis"))
	if err != nil {
		return err
	}
	if c.js, err = jetstream.New(c.conn, jetstream.WithDefaultTimeout(2*time.Second), jetstream.WithPublishAsyncTimeout(5*time.Second)); err != nil {
		return err
	}
	return natstest.Await(patient, "the cluster to have a leader", func() error {
		_, err := c.js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{Name: "READY_TO_GO", Subjects: []string{"nemesis.ready"}, Replicas: len(servers)})
		return err
	})
}

func (c *natsServers) urls() (urls []string) {
	for _, a := range c.addresses {
		urls = append(urls, "nats://"+a)
	}
	return urls
}

// addDisk makes a server's folder a disk of its own: ext4 in a file, or else in
// memory.
func (c *natsServers) addDisk(server string) error {
	if c.ext4 {
		err := mountExt4(c.image(server), c.disk(server), diskSize)
		if err == nil {
			return nil
		}
		c.ext4 = false
	}
	return mountDisk(c.disk(server), diskSize)
}

// flush writes to the disks what was written to files, as a kernel does half a minute
// later at most, so that a power cut cannot lose the streams themselves.
func (c *natsServers) flush() (err error) {
	for _, disk := range c.disks {
		err = errors.Join(err, syncDisk(disk))
	}
	return err
}

// disk is a server's folder.
func (c *natsServers) disk(server string) string { return c.disks[slices.Index(servers, server)] }

// image is the file in which a server's disk is.
func (c *natsServers) image(server string) string { return filepath.Join(c.images, server+".img") }

// data is the folder of JetStream's files of a server.
func (c *natsServers) data(server string) string {
	return filepath.Join(c.disk(server), "data", "jetstream")
}

// stream is the folder of a stream's files of a server.
func (c *natsServers) stream(server, stream string) string {
	return filepath.Join(c.data(server), appAccount, "streams", stream)
}

// raft is the folder of a server's log of a raft group.
func (c *natsServers) raft(server, group string) string {
	return filepath.Join(c.data(server), systemAccount, "_js_", group)
}

// metaGroup is the raft group of all servers, which decides which streams there
// are.
const metaGroup = "_meta_"

// group is the raft group of a stream.
func (c *natsServers) group(stream string) (group string, err error) {
	if stream == metaGroup {
		return stream, nil
	}
	err = natstest.Await(20*time.Second, "the raft group of "+stream, func() error {
		reply, err := c.conn.Request("$JS.API.STREAM.INFO."+stream, nil, 2*time.Second)
		if err != nil {
			return err
		}
		var info struct {
			Cluster struct {
				RaftGroup string `json:"raft_group"`
			} `json:"cluster"`
		}
		if err := json.Unmarshal(reply.Data, &info); err != nil {
			return err
		}
		if group = info.Cluster.RaftGroup; group == "" {
			return errNoLeader
		}
		return nil
	})
	return group, err
}

// lastSequence is the last sequence of a stream.
func (c *natsServers) lastSequence(stream string) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.LastSeq, nil
}

// watch remembers how far the register has come, until the context ends.
func (c *natsServers) watch(ctx context.Context) {
	for range ticks(ctx, 100*ms) {
		if last, err := c.lastSequence(registerStream); err == nil && last > c.seen.Load() {
			c.seen.Store(last)
		}
	}
}

// health is nil if a server has caught up with the others.
func (c *natsServers) health(server string) error {
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get("http://" + c.monitors[slices.Index(servers, server)] + "/healthz")
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", errUnhealthy, answer.Status)
	}
	return nil
}

// awaitHealth waits until a server has caught up with the others.
func (c *natsServers) awaitHealth(server string) error {
	return natstest.Await(time.Minute, server+" to be healthy", func() error {
		time.Sleep(100 * ms) // a server logs each answer that it is not
		return c.health(server)
	})
}

// errUnhealthy: a server has not caught up.
var errUnhealthy = errors.New("unhealthy")

// lead makes a server the leader of a stream.
func (c *natsServers) lead(stream, server string) error {
	return natstest.Await(20*time.Second, server+" to lead "+stream, func() error {
		p, err := c.leader(stream)
		if err == nil && p.Name == server {
			return nil
		}
		time.Sleep(100 * ms) // until the last request had an effect
		_, asked := c.conn.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, []byte(`{"placement":{"preferred":"`+server+`"}}`), 2*time.Second)
		return errors.Join(err, asked, errNoLeader)
	})
}

// errNoLeader: the stream has no leader at the moment.
var errNoLeader = errors.New("no leader")

// errNotSeen: the process was not cut, for it wrote no such thing.
var errNotSeen = errors.New("not seen")

// leader is the server that leads a stream.
func (c *natsServers) leader(stream string) (*Supervised, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	info := s.CachedInfo()
	if info.Cluster == nil {
		return nil, errNoLeader
	}
	i := slices.Index(servers, info.Cluster.Leader)
	if i < 0 {
		return nil, errNoLeader
	}
	return c.programs[i], nil
}

// stepDown has the leader of a stream give way.
func (c *natsServers) stepDown(stream string) error {
	_, err := c.conn.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, 2*time.Second)
	return err
}

// filler is the file that fills a disk.
func (c *natsServers) filler(server string) string {
	return filepath.Join(c.disk(server), "filler")
}

// errNoDisk: the servers have no disks of their own.
var errNoDisk = errors.New("not done: no right to mount disks")

// fill fills a server's disk.
func (c *natsServers) fill(server string) error {
	if !c.limited {
		return errNoDisk
	}
	f, err := os.Create(c.filler(server))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<20); ; {
		if _, err := f.Write(block); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				return nil
			}
			return err
		}
	}
}

// close ends the servers.
func (c *natsServers) close() {
	if c.conn != nil {
		c.conn.Close()
	}
	for _, p := range c.programs {
		p.Close()
	}
	for _, disk := range c.disks {
		_ = unmountDisk(disk)
	}
	if c.images != "" {
		_ = unmountDisk(c.images)
	}
}
