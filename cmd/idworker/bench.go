package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/bench"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/worker/history"
)

// benchCmd puts load on an installation and checks every ID that it returns.
type benchCmd struct {
	natsFlags `embed:"" group:"nats"`

	Tags     []string      `arg:"" optional:"" name:"tag" help:"Tags to request in turn."`
	Callers  int           `help:"Concurrent callers, 1 to 10000." default:"16" env:"-"`
	Duration time.Duration `help:"Duration of the run, 1ms to 24h." default:"10s" env:"-"`
	Rate     int           `help:"Requests a second in all (0: unlimited)." default:"0" placeholder:"N" env:"-"`
	Batch    int64         `help:"IDs per request." default:"1" env:"-"`
	Timeout  time.Duration `help:"Timeout of a request, 10ms to 1m." default:"5s" env:"-"`
	Remote   bool          `help:"Allow servers on other machines." env:"-"`
	History  string        `help:"Record requests in a new file (.gz: compressed)." type:"path" placeholder:"FILE" env:"-"`

	printFlags `embed:""`
	Snowflake  bool `help:"Request snowflake IDs, in turn with tags." env:"-"`
}

// callersPerConnection is the number of callers that share a connection.
const callersPerConnection = 16

// Run prints a report, even if ctx ends early.
func (c *benchCmd) Run(ctx context.Context, out output) error {
	if err := c.check(); err != nil {
		return err
	}
	config := bench.Config{Callers: c.Callers, Duration: c.Duration, Rate: c.Rate, Batch: c.Batch, Timeout: c.Timeout}
	for range (c.Callers + callersPerConnection - 1) / callersPerConnection {
		conn, js, err := c.connect()
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := c.checkServer(conn.ConnectedAddr()); err != nil {
			return err
		}
		if len(config.Clients) == 0 {
			if err := c.look(ctx, conn, js, &config); err != nil {
				return err
			}
		}
		config.Clients = append(config.Clients, newClient(conn, c.Prefix))
	}
	if c.History != "" {
		var err error
		if config.History, err = history.Create(c.History, config.Layout); err != nil {
			return fmt.Errorf("--history: %w; choose another file", err)
		}
	}
	report, err := bench.Run(ctx, config)
	return errors.Join(out.Print(report), err)
}

// check validates the arguments before anything is sent.
func (c *benchCmd) check() error {
	var err error
	switch {
	case len(c.Tags) == 0 && !c.Snowflake:
		err = errors.New("give a tag, or --snowflake")
	case c.Callers < 1 || c.Callers > 10_000:
		err = fmt.Errorf("--callers %d, allowed is 1 to 10000", c.Callers)
	case c.Duration < time.Millisecond || c.Duration > 24*time.Hour:
		err = fmt.Errorf("--duration %v, allowed is 1ms to 24h", c.Duration)
	case c.Rate < 0:
		err = fmt.Errorf("--rate %d, allowed is 0 (unlimited) or more", c.Rate)
	case c.Batch < 1 || c.Batch > history.MaxCount:
		err = fmt.Errorf("--batch %d, allowed is 1 to %d", c.Batch, history.MaxCount)
	case c.Timeout < 10*time.Millisecond || c.Timeout > time.Minute:
		err = fmt.Errorf("--timeout %v, allowed is 10ms to 1m", c.Timeout)
	}
	if err != nil {
		return problem.Usage(err)
	}
	for _, tag := range c.Tags {
		if err := messages.CheckTag(tag); err != nil {
			return err
		}
	}
	return nil
}

// checkServer refuses the address of a server that is not on this machine,
// unless --remote allows it.
func (c *benchCmd) checkServer(address string) error {
	host, _, _ := net.SplitHostPort(address)
	if c.Remote || net.ParseIP(host).IsLoopback() {
		return nil
	}
	return problem.Usage(fmt.Errorf("server %s is on another machine; add --remote to put load on it and use up its IDs", address))
}

// look requests every target once, so that errors appear before the load
// begins. It adds the targets and the installed layout to the config.
func (c *benchCmd) look(ctx context.Context, conn *nats.Conn, js jetstream.JetStream, config *bench.Config) error {
	client := newClient(conn, c.Prefix)
	ctx, explainDenied := natsconn.WhenDenied(ctx, natsconn.OwnAny, conn)
	wanted := c.Tags
	if c.Snowflake {
		wanted = append(wanted, "")
	}
	for _, tag := range wanted {
		target, err := c.lookAt(ctx, client, tag)
		if err != nil {
			return explainNoIDs(explainDenied(err), c.Prefix, conn, tag)
		}
		config.Targets = append(config.Targets, target)
	}
	if c.Snowflake {
		try, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		// Callers need no right to read it.
		text, _ := lease.InstalledLayout(try, js, c.Prefix)
		config.Layout, _ = snowflake.ParseLayout(text) // zero if missing
	}
	return nil
}

// lookAt requests a batch of a tag, or of snowflake IDs if tag is empty, and
// detects whether the tag is strict.
func (c *benchCmd) lookAt(ctx context.Context, client *messages.Client, tag string) (bench.Target, error) {
	try, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	_, err := briefly(nextOf(client, tag))(try, c.Batch)
	if limit := limitIn(err); limit > 0 {
		return bench.Target{}, problem.Usage(fmt.Errorf("--batch %d is too large, allowed is 1 to %d", c.Batch, limit))
	}
	if err != nil || tag == "" {
		return bench.Target{Kind: history.Snowflake}, err
	}
	look, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return bench.Look(look, client, tag, c.Batch)
}
