package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// getCmd prints IDs, one a line.
type getCmd struct {
	installation `embed:"" group:"nats"`
	printFlags   `embed:""`

	What      []string      `arg:"" optional:"" name:"tag [n]" help:"One tag to get IDs of, unless --snowflake is given, and how many. More than workers give at once (--max-batch of serve) are asked for in several requests."`
	Snowflake bool          `help:"Get snowflake IDs."`
	Ranges    bool          `help:"Print ranges, first-last, instead of single IDs."`
	Timeout   time.Duration `help:"How long to wait for the answer to a request. If there is no worker at all, the command fails after a second." default:"5s"`
}

// parse reads the arguments: TAG [N], or [N] with --snowflake.
func (g *getCmd) parse() (tag string, n int64, err error) {
	rest := g.What
	if !g.Snowflake {
		if len(rest) == 0 {
			return "", 0, problem.Usage(errors.New("want a tag, or --snowflake"))
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
			return "", 0, fmt.Errorf("%w: %q, want a decimal number from 1 on, below 2^63", messages.ErrCount, rest[0])
		}
		return tag, n, nil
	}
	return "", 0, problem.Usage(fmt.Errorf("unexpected argument %s: want one tag, and how many", rest[1]))
}

// Run prints all IDs, or an error behind those that there were until then.
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
	next := nextOf(messages.NewClient(conn, g.Prefix), tag)
	got := newIDPrinter(out, tag, g.Ranges)
	err = explainDenied(getIDs(ctx, next, n, g.Timeout, got.add))
	return got.end(explainNoIDs(err, g.Prefix, conn, tag), n)
}

// explainNoIDs says what can be done about the error of asking for IDs of a tag, or for snowflake IDs
// if it is empty.
func explainNoIDs(err error, prefix messages.Prefix, conn *nats.Conn, tag string) error {
	lacks, start := "no worker serves the prefix %q on the NATS server %s (%s)", "start one with: idworker serve --server %s"
	if tag == "" {
		lacks = "no worker with the prefix %q has a worker ID on the NATS server %s (%s)"
		start = "one that was started a moment ago takes a second to get it; idworker status says why others have none; if none runs: idworker serve --server %s"
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		url := natsconn.Redact(conn.ConnectedUrl())
		return fmt.Errorf("%w: "+lacks+"; "+start, err, prefix, conn.ConnectedServerName(), url, url)
	case errors.Is(err, messages.ErrNoTag):
		return fmt.Errorf("%w; create it with: idworker tag create %s; or create a template that it matches, see idworker tag create --help", err, tag)
	}
	return err
}

// nextIDs asks for n IDs at once.
type nextIDs func(ctx context.Context, n int64) ([]messages.Range, error)

// nextOf asks for IDs of a tag, or for snowflake IDs if it is empty.
func nextOf(client *messages.Client, tag string) nextIDs {
	if tag == "" {
		return client.SnowflakeN
	}
	return func(ctx context.Context, n int64) ([]messages.Range, error) { return client.NextN(ctx, tag, n) }
}

// nobodyFor is how long a worker is looked for: longer than a restart leaves the queue group empty, but not
// so long that someone who forgot to start one is left wondering.
const nobodyFor = time.Second

// getIDs asks for n IDs, as few times as workers allow, and passes them on as they come. Each request may take
// for timeout, but the first one fails earlier if there is nobody to ask. After an error there are fewer.
func getIDs(ctx context.Context, next nextIDs, n int64, timeout time.Duration, add func([]messages.Range)) error {
	batch, ask := n, briefly(next)
	for n > 0 {
		try, cancel := context.WithTimeout(ctx, timeout)
		ranges, err := ask(try, min(n, batch))
		cancel()
		ask = next
		limit := limitIn(err)
		switch {
		case limit > 0 && limit < min(n, batch):
			batch = limit // of the worker that answered; others may have another
		case err != nil:
			return err
		default:
			n -= min(n, batch)
			add(ranges)
		}
	}
	return nil
}

// briefly is a nextIDs that asks, but fails after nobodyFor if there is nobody to ask.
func briefly(next nextIDs) nextIDs {
	return func(ctx context.Context, n int64) ([]messages.Range, error) {
		short, cancel := context.WithTimeout(ctx, nobodyFor)
		defer cancel()
		ranges, err := next(short, n)
		if err == nil || short.Err() == nil || ctx.Err() != nil || errors.Is(err, nats.ErrNoResponders) {
			return ranges, err
		}
		return next(ctx, n)
	}
}

// largest finds in a worker's answer how many IDs may be asked for at once. Only workers know.
var largest = regexp.MustCompile(`a decimal from 1 to (\d+)`)

// limitIn reads the largest batch from the error of a request for more, 0 if it is another error.
func limitIn(err error) int64 {
	if !errors.Is(err, messages.ErrMalformed) {
		return 0
	}
	found := largest.FindStringSubmatch(err.Error())
	if found == nil {
		return 0
	}
	limit, _ := strconv.ParseInt(found[1], 10, 64) // 0 if it is no number
	return limit
}

// idPrinter prints IDs: as text as they come, and as JSON all together.
type idPrinter struct {
	out    output
	lines  *bufio.Writer
	tag    string // "" for snowflake IDs
	ranges bool   // instead of single IDs
	had    int64
	all    []messages.Range // for JSON
	err    error
}

func newIDPrinter(out output, tag string, ranges bool) *idPrinter {
	return &idPrinter{out: out, lines: bufio.NewWriter(out), tag: tag, ranges: ranges}
}

// add adds the IDs of one answer.
func (p *idPrinter) add(ranges []messages.Range) {
	for _, r := range ranges {
		p.had += r.Len()
		switch {
		case p.out.JSON:
			p.all = append(p.all, r)
		case p.ranges:
			fmt.Fprintln(p.lines, r)
		default:
			for id := range messages.IDs([]messages.Range{r}) {
				fmt.Fprintln(p.lines, id)
			}
		}
	}
	p.err = errors.Join(p.err, p.lines.Flush())
}

// end prints what remains to be printed. The error says how many of the n IDs there were before it.
func (p *idPrinter) end(failed error, n int64) error {
	if failed != nil && p.had > 0 {
		failed = fmt.Errorf("%w; %d of %d IDs are printed", failed, p.had, n)
	}
	if p.out.JSON && (failed == nil || p.had > 0) {
		p.err = p.out.Print(p.report())
	}
	return errors.Join(failed, p.err)
}

func (p *idPrinter) report() gotIDs {
	found := gotIDs{Tag: p.tag}
	if p.ranges {
		for _, r := range p.all {
			found.Ranges = append(found.Ranges, firstLast(r))
		}
		return found
	}
	for id := range messages.IDs(p.all) {
		found.IDs = append(found.IDs, strconv.FormatInt(id, 10))
	}
	return found
}

// gotIDs is what JSON has: IDs, or ranges.
type gotIDs struct {
	Tag    string      `json:"tag,omitempty"` // missing for snowflake IDs
	IDs    []string    `json:"ids,omitempty"`
	Ranges []firstLast `json:"ranges,omitempty"`
}

// firstLast is a range.
type firstLast struct {
	First int64 `json:"first,string"`
	Last  int64 `json:"last,string"`
}

// Text is part of report; text is printed as it comes.
func (gotIDs) Text(io.Writer) error { return nil }
