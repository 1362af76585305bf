package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/messages"
)

// getCmd prints IDs, one a line.
type getCmd struct {
	installation `embed:""`

	What      []string      `arg:"" optional:"" name:"tag [n]" help:"The tag to get IDs of, unless --snowflake is given, and how many."`
	Snowflake bool          `help:"Get snowflake IDs."`
	Ranges    bool          `help:"Print ranges, first-last, instead of single IDs."`
	Timeout   time.Duration `help:"How long to wait for IDs. If there is no worker at all, the command fails after a second." default:"5s"`
}

// parse reads the arguments: TAG [N], or [N] with --snowflake.
func (g *getCmd) parse() (tag string, n int64, err error) {
	rest := g.What
	if !g.Snowflake {
		if len(rest) == 0 {
			return "", 0, explain.Usage(errors.New("want a tag, or --snowflake"))
		}
		tag, rest = rest[0], rest[1:]
		if err := messages.CheckTag(tag); err != nil {
			return "", 0, err
		}
	}
	switch len(rest) {
	case 0:
		return tag, 1, nil
	case 1:
		n, err := strconv.ParseInt(rest[0], 10, 64)
		if err != nil || n < 1 {
			return "", 0, fmt.Errorf("%w: %q, want a decimal number from 1 on", messages.ErrCount, rest[0])
		}
		return tag, n, nil
	}
	return "", 0, explain.Usage(fmt.Errorf("unexpected argument %s", rest[1]))
}

// largest finds in a worker's answer how many IDs may be asked for at once. Only workers know.
var largest = regexp.MustCompile(`a decimal from 1 to (\d+)`)

// nobodyFor is how long get looks for a worker: longer than a restart leaves the queue
// group empty, but not so long that someone who forgot to start one is left wondering.
const nobodyFor = time.Second

// askOnce gets n IDs of a tag, or snowflake IDs if it is empty, within the timeout. It fails earlier if there is
// nobody to ask.
func askOnce(ctx context.Context, client *messages.Client, tag string, n int64, timeout time.Duration) ([]messages.Range, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	next := func(ctx context.Context) ([]messages.Range, error) {
		if tag == "" {
			return client.SnowflakeN(ctx, n)
		}
		return client.NextN(ctx, tag, n)
	}
	short, cancelShort := context.WithTimeout(ctx, nobodyFor)
	defer cancelShort()
	ranges, err := next(short)
	if err == nil || short.Err() == nil || ctx.Err() != nil || errors.Is(err, nats.ErrNoResponders) {
		return ranges, err
	}
	return next(ctx)
}

// explainNoIDs says what can be done about the error of asking for n IDs of a tag.
func explainNoIDs(err error, prefix messages.Prefix, tag string, n int64) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: no worker serves the prefix %q there; start one with: idworker serve", err, prefix)
	case errors.Is(err, messages.ErrNoTag):
		return fmt.Errorf("%w; create it with: idworker tag create %s; or, if it came of a template that was removed, create that again", err, tag)
	case errors.Is(err, messages.ErrMalformed) && largest.MatchString(err.Error()):
		return explain.Usage(fmt.Errorf("count %d is too large: 1 to %s are allowed", n, largest.FindStringSubmatch(err.Error())[1]))
	}
	return err
}

// Run asks for one batch: all IDs, or an error and none.
func (g *getCmd) Run(ctx context.Context, out output) error {
	tag, n, err := g.parse()
	if err != nil {
		return err
	}
	conn, _, err := g.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, explainDenied := natsconn.WhenDenied(ctx, conn)
	ranges, err := askOnce(ctx, messages.NewClient(conn, g.Prefix), tag, n, g.Timeout)
	if err = explainDenied(err); err != nil {
		return explainNoIDs(err, g.Prefix, tag, n)
	}
	w := bufio.NewWriter(out)
	if g.Ranges {
		for _, r := range ranges {
			fmt.Fprintln(w, r)
		}
		return w.Flush()
	}
	for id := range messages.IDs(ranges) {
		fmt.Fprintln(w, id)
	}
	return w.Flush()
}
