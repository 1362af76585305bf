package messages_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// driven is a client of the driver, which makes its connection.
type driven struct {
	*messages.Client
	nc      *nats.Conn
	link    *link
	timeout *int64 // of calls, in ms; nil: none
}

// link dials a connection, and keeps its socket.
type link struct {
	mu     sync.Mutex
	socket net.Conn
}

// Dial is part of [nats.CustomDialer].
func (l *link) Dial(network, address string) (net.Conn, error) {
	socket, err := net.DialTimeout(network, address, nats.DefaultTimeout)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.socket = socket
	return socket, nil
}

// kill closes the socket, as a broken link does.
func (l *link) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.socket.Close() // fails if the connection has closed it
}

type connectFields struct {
	Client      string
	URL         string
	User        string
	Password    string
	Prefix      *messages.Prefix
	InboxPrefix string `json:"inbox_prefix"`
	TimeoutMS   *int64 `json:"timeout_ms"`
	Own         bool   // has no effect: the client never makes its connection
}

func connect(d *driver, _ context.Context, f connectFields) (any, error) {
	prefix := messages.DefaultPrefix
	if f.Prefix != nil {
		prefix = *f.Prefix
	}
	if err := prefix.Check(); err != nil { // each call would fail with it
		return nil, err
	}
	l := new(link)
	options := []nats.Option{
		nats.SetCustomDialer(l), nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { fmt.Fprintf(os.Stderr, "%s: %v\n", f.Client, err) }),
	}
	if f.User != "" {
		options = append(options, nats.UserInfo(f.User, f.Password))
	}
	if f.InboxPrefix != "" {
		options = append(options, nats.CustomInboxPrefix(f.InboxPrefix))
	}
	nc, err := nats.Connect(f.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errConnect, err)
	}
	client := messages.NewClient(nc, prefix)
	client.Traceparent = func(ctx context.Context) string {
		if trace := traceOf(ctx); trace != "throw" {
			return trace
		}
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients[f.Client] = &driven{client, nc, l, f.TimeoutMS}
	return none{}, nil
}

type ofClient struct{ Client string }

func (d *driver) client(name string) (*driven, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.clients[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w: no client %q", errDriver, name)
}

func closeConnection(d *driver, _ context.Context, f ofClient) (any, error) {
	c, err := d.client(f.Client)
	if err == nil {
		c.nc.Close()
	}
	return none{}, err
}

func drain(d *driver, _ context.Context, f ofClient) (any, error) {
	c, err := d.client(f.Client)
	if err == nil {
		err = c.nc.Drain()
	}
	return none{}, err
}

func killLink(d *driver, _ context.Context, f ofClient) (any, error) {
	c, err := d.client(f.Client)
	if err == nil {
		c.link.kill()
	}
	return none{}, err
}

// callFields are those of each call.
type callFields struct {
	Client    string
	Cancelled bool
	TimeoutMS *int64 `json:"timeout_ms"`
}

// perform performs a call.
func (f callFields) perform(d *driver, ctx context.Context, call func(context.Context, *driven) ([]messages.Range, error)) (any, error) {
	c, err := d.client(f.Client)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, cmp.Or(f.TimeoutMS, c.timeout))
	defer cancel()
	if f.Cancelled {
		cancel()
	}
	return rangesOf(call(ctx, c))
}

// withTimeout returns a context with a timeout in ms, if there is one.
func withTimeout(ctx context.Context, ms *int64) (context.Context, context.CancelFunc) {
	if ms == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(*ms)*time.Millisecond)
}

// rangesOf returns the result of an operation that returns ranges.
func rangesOf(ranges []messages.Range, err error) (any, error) {
	return map[string]any{"ranges": append([]string{}, texts(ranges)...)}, err
}

func next(d *driver, ctx context.Context, f struct {
	callFields
	Tag string
}) (any, error) {
	return f.perform(d, ctx, func(ctx context.Context, c *driven) ([]messages.Range, error) { return single(c.Next(ctx, f.Tag)) })
}

func nextN(d *driver, ctx context.Context, f struct {
	callFields
	Tag string
	N   json.RawMessage
}) (any, error) {
	n, err := parseCount(string(f.N))
	if err != nil {
		return nil, err
	}
	return f.perform(d, ctx, func(ctx context.Context, c *driven) ([]messages.Range, error) { return c.NextN(ctx, f.Tag, n) })
}

func oneSnowflake(d *driver, ctx context.Context, f callFields) (any, error) {
	return f.perform(d, ctx, func(ctx context.Context, c *driven) ([]messages.Range, error) { return single(c.Snowflake(ctx)) })
}

func snowflakeN(d *driver, ctx context.Context, f struct {
	callFields
	N json.RawMessage
}) (any, error) {
	n, err := parseCount(string(f.N))
	if err != nil {
		return nil, err
	}
	return f.perform(d, ctx, func(ctx context.Context, c *driven) ([]messages.Range, error) { return c.SnowflakeN(ctx, n) })
}

func single(id int64, err error) ([]messages.Range, error) {
	if err != nil {
		return nil, err
	}
	return []messages.Range{{First: id, Last: id}}, nil
}

// parseCount reads a number of IDs. The type refuses some.
func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", messages.ErrCount, err)
	}
	return n, nil
}

func many(d *driver, ctx context.Context, f struct {
	callFields
	Tag            string
	Callers, Calls int
}) (any, error) {
	c, err := d.client(f.Client)
	if err != nil {
		return nil, err
	}
	result, _ := atOnce(f.Callers, f.Calls, func() (int64, error) {
		ctx, cancel := withTimeout(ctx, cmp.Or(f.TimeoutMS, c.timeout))
		defer cancel()
		return c.Next(ctx, f.Tag)
	})
	return result, nil
}

// taken is the result of many callers.
type taken struct {
	Ranges   []string         `json:"ranges"`
	Errors   map[string]int64 `json:"errors"`
	Descents int64            `json:"descents"`
}

// atOnce calls a function from so many callers, from each so many times, or up
// to its first error. It returns the first error, too.
func atOnce(callers, calls int, call func() (int64, error)) (result taken, first error) {
	result = taken{Errors: make(map[string]int64)}
	var mu sync.Mutex
	var all []int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			var ids []int64
			var descents int64
			var err error
			for range calls {
				var id int64
				if id, err = call(); err != nil {
					break
				}
				if len(ids) > 0 && id <= ids[len(ids)-1] {
					descents++
				}
				ids = append(ids, id)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, ids...)
			result.Descents += descents
			if err != nil {
				result.Errors[describe(err).Kind]++
				first = cmp.Or(first, err)
			}
		})
	}
	wg.Wait()
	result.Ranges = joined(all)
	return result, first
}

// joined returns IDs as ranges, sorted. An ID that came twice is in two of them.
func joined(ids []int64) []string {
	slices.Sort(ids)
	var ranges []messages.Range
	for _, id := range ids {
		if last := len(ranges) - 1; last >= 0 && ranges[last].Last == id-1 {
			ranges[last].Last = id
		} else {
			ranges = append(ranges, messages.Range{First: id, Last: id})
		}
	}
	return append([]string{}, texts(ranges)...)
}

func newPrefetcher(d *driver, _ context.Context, f struct {
	Client, Name string
	Tag          *string
	RunwayMS     int64 `json:"runway_ms"`
	Limit        int64
	MaxBatch     int64 `json:"max_batch"`
}) (any, error) {
	c, err := d.client(f.Client)
	if err != nil {
		return nil, err
	}
	cfg := messages.PrefetchConfig{Runway: time.Duration(f.RunwayMS) * time.Millisecond, Limit: f.Limit, MaxBatch: f.MaxBatch}
	var p *messages.Prefetcher
	if f.Tag != nil {
		p, err = c.Prefetch(*f.Tag, cfg)
	} else {
		p, err = c.PrefetchSnowflake(cfg)
	}
	if err != nil {
		return nil, err
	}
	p.SetWall(func() time.Time { return time.Now().Round(0).Add(time.Duration(d.wall.Load())) })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prefetchers[f.Name] = p
	return none{}, nil
}

func (d *driver) prefetcher(name string) (*messages.Prefetcher, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.prefetchers[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: no prefetcher %q", errDriver, name)
}

func take(d *driver, ctx context.Context, f struct {
	Name       string
	N, Callers *int
	Mode       string
	TimeoutMS  *int64 `json:"timeout_ms"`
}) (any, error) {
	p, err := d.prefetcher(f.Name)
	if err != nil {
		return nil, err
	}
	if f.Mode != "" && f.Mode != "wait" {
		return nil, fmt.Errorf("%w: mode %q", errDriver, f.Mode)
	}
	one := 1
	callers := *cmp.Or(f.Callers, &one)
	ended, end := context.WithCancel(ctx)
	end()
	result, err := atOnce(callers, *cmp.Or(f.N, &one), func() (int64, error) {
		// A buffered ID costs much less than a context with a timeout.
		if id, err := p.Next(ended); err == nil {
			return id, nil
		}
		ctx, cancel := withTimeout(ctx, f.TimeoutMS)
		defer cancel()
		return p.Next(ctx)
	})
	if callers == 1 && err != nil {
		return nil, err
	}
	return result, nil
}

type ofPrefetcher struct{ Name string }

func showBuffer(d *driver, _ context.Context, f ofPrefetcher) (any, error) {
	p, err := d.prefetcher(f.Name)
	if err != nil {
		return nil, err
	}
	current, stock, _ := p.Counts()
	inFlight, target, batch := p.Flight()
	return map[string]int64{"buffered": current + stock, "in_flight": inFlight, "target": target, "batch": batch}, nil
}

func closePrefetcher(d *driver, _ context.Context, f ofPrefetcher) (any, error) {
	p, err := d.prefetcher(f.Name)
	if err == nil {
		p.Close()
	}
	return none{}, err
}

// moveWall moves the wall clock of all prefetchers, on or back.
func moveWall(d *driver, _ context.Context, f struct{ MS int64 }) (any, error) {
	d.wall.Add(f.MS * int64(time.Millisecond))
	return none{}, nil
}
