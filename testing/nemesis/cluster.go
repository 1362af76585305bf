package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	disks     []string // folder of each server's data
	tmpfs     bool     // each is a disk of its own, of limited size
	conn      *nats.Conn
	js        jetstream.JetStream
}

// diskSize is how much a server can store, if it has a disk of its own.
const diskSize = 768 << 20

// startCluster starts the servers.
func (r *Run) startCluster() {
	c := &natsServers{tmpfs: true}
	r.cluster = c
	var listen []string
	for range servers {
		c.addresses = append(c.addresses, freeport.Address(r.T))
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
		if err := mountDisk(disk, diskSize); err != nil {
			c.tmpfs = false
		}
		conf := filepath.Join(r.work, name+".conf")
		text := fmt.Sprintf(`
server_name: %s
listen: %q
jetstream { store_dir: %q, sync_interval: always, max_file_store: 700MB, max_memory_store: 64MB }
cluster { name: nemesis, ping_interval: "500ms", ping_max: 3, listen: %q, advertise: "127.0.0.1:1", no_advertise: true, routes: [%s] }
`, name, c.addresses[i], filepath.Join(disk, "data"), listen[i], strings.Join(to, ", "))
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
	return filepath.Join(c.disks[slices.Index(servers, server)], "filler")
}

// errNoDisk: the servers have no disks of their own.
var errNoDisk = errors.New("not done: no right to mount a tmpfs")

// fill fills a server's disk.
func (c *natsServers) fill(server string) error {
	if !c.tmpfs {
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
}
