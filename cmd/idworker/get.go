package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// getCmd prints IDs line by line.
type getCmd struct {
	natsFlags  `embed:"" group:"nats"`
	printFlags `embed:""`

	What      []string      `arg:"" optional:"" name:"tag [n]" help:"Tag (unless --snowflake), and number of IDs."`
	Snowflake bool          `help:"Get snowflake IDs."`
	Ranges    bool          `help:"Print ranges (first-last)."`
	Timeout   time.Duration `help:"Timeout of a request." default:"5s"`

	sealFlags   `embed:""`
	numberFlags `embed:""`
}

// parse parses the arguments: TAG [N], or [N] with --snowflake.
func (g *getCmd) parse() (tag string, n int64, err error) {
	if err := g.checkNumber(g.Snowflake || g.Opaque != "", g.Ranges); err != nil {
		return "", 0, err
	}
	rest := g.What
	if !g.Snowflake {
		if len(rest) == 0 {
			return "", 0, problem.Usage(errors.New("give a tag, or --snowflake"))
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
			return "", 0, fmt.Errorf("%w: %q is not a decimal from 1 to 2^63-1", messages.ErrCount, rest[0])
		}
		return tag, n, nil
	}
	return "", 0, problem.Usage(fmt.Errorf("unexpected argument %s; give one tag and a count", rest[1]))
}

// Run prints all IDs. After an error, the IDs received before it are printed.
func (g *getCmd) Run(ctx context.Context, out output) error {
	tag, n, err := g.parse()
	if err != nil {
		return err
	}
	seal, err := g.sealer(tag, g.Ranges)
	if err != nil {
		return err
	}
	docs, err := g.documents(tag)
	if err != nil {
		return err
	}
	if docs != nil {
		tag, seal = docs.tag, docs.number
	}
	conn, _, err := g.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, explainDenied := natsconn.WhenDenied(ctx, natsconn.OwnAny, conn)
	next := nextOf(newClient(conn, g.Prefix), tag)
	got := newIDPrinter(out, tag, g.Ranges)
	got.seal, got.numbers = seal, docs != nil
	err = explainDenied(getIDs(ctx, next, n, g.Timeout, got.add))
	if docs != nil && errors.Is(err, messages.ErrNoTag) {
		return got.end(docs.explainNoTag(err), n)
	}
	return got.end(explainNoIDs(err, g.Prefix, conn, tag), n)
}

// newClient returns a client that logs nothing: a command reports its errors, and
// serve and enrich have a log of their own.
func newClient(conn *nats.Conn, prefix messages.Prefix) *messages.Client {
	c := messages.NewClient(conn, prefix)
	c.Log = slog.New(slog.DiscardHandler)
	return c
}

// explainNoIDs adds advice to the error of a request for IDs of a tag, or for
// snowflake IDs if tag is empty. Without a worker, all that is known is that
// nothing subscribes: the likeliest reason comes first.
func explainNoIDs(err error, prefix messages.Prefix, conn *nats.Conn, tag string) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		lacks := "it is still waiting for JetStream"
		if tag == "" {
			lacks = "none has a worker ID, for which it needs a correct clock and JetStream with a majority"
		}
		url := natsconn.Redact(conn.ConnectedUrl())
		return fmt.Errorf("%w: no worker runs with the prefix %q on the NATS server %s (%s), or %s; see idworker status, "+
			"or start one with: idworker serve --server %s; or import the service into this user's account", err, prefix, conn.ConnectedServerName(), url, lacks, url)
	case errors.Is(err, messages.ErrNoTag):
		return fmt.Errorf("%w; create it with: idworker tag create %s; or create a matching template", err, tag)
	}
	return err
}

// nextIDs requests n IDs at once.
type nextIDs func(ctx context.Context, n int64) ([]messages.Range, error)

// nextOf returns nextIDs for a tag, or for snowflake IDs if tag is empty.
func nextOf(client *messages.Client, tag string) nextIDs {
	if tag == "" {
		return client.SnowflakeN
	}
	return func(ctx context.Context, n int64) ([]messages.Range, error) { return client.NextN(ctx, tag, n) }
}

// noWorkerTimeout bounds the search for a worker. A restart leaves the queue
// group empty for less, and a user who forgot to start a worker learns it soon.
const noWorkerTimeout = time.Second

// getIDs requests n IDs in as few requests as workers allow, and passes them to
// add as they arrive. Each request may take timeout, but the first fails
// earlier if there is no worker. After an error, add has received fewer than n.
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
			// The limit of the worker that answered; others may differ.
			batch = limit
		case err != nil:
			return err
		default:
			n -= min(n, batch)
			add(ranges)
		}
	}
	return nil
}

// briefly returns a nextIDs that fails after noWorkerTimeout if there is no
// worker.
func briefly(next nextIDs) nextIDs {
	return func(ctx context.Context, n int64) ([]messages.Range, error) {
		short, cancel := context.WithTimeout(ctx, noWorkerTimeout)
		defer cancel()
		ranges, err := next(short, n)
		if err == nil || short.Err() == nil || ctx.Err() != nil || errors.Is(err, nats.ErrNoResponders) {
			return ranges, err
		}
		return next(ctx, n)
	}
}

// limitIn returns the largest count that the worker allows which refused a
// request, or 0 if the error does not have it.
func limitIn(err error) int64 {
	if refused, ok := errors.AsType[*messages.Error](err); ok {
		return refused.MaxCount
	}
	return 0
}

// idPrinter prints IDs: as text when they arrive, as JSON at the end.
type idPrinter struct {
	out    output
	lines  *bufio.Writer
	tag    string // "" for snowflake IDs
	ranges bool   // print ranges, not IDs
	had    int64
	all    []messages.Range // for JSON
	err    error

	seal    func(id int64) (string, error) // makes opaque IDs or document numbers, or nil
	numbers bool                           // seal makes document numbers
}

func newIDPrinter(out output, tag string, ranges bool) *idPrinter {
	return &idPrinter{out: out, lines: bufio.NewWriter(out), tag: tag, ranges: ranges}
}

// add adds the IDs of a reply.
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
				p.println(id)
			}
		}
	}
	p.err = errors.Join(p.err, p.lines.Flush())
}

// println prints an ID, or with seal its text.
func (p *idPrinter) println(id int64) {
	if p.seal == nil {
		fmt.Fprintln(p.lines, id)
		return
	}
	sealed, err := p.seal(id)
	if err != nil {
		p.err = errors.Join(p.err, err)
		return
	}
	fmt.Fprintln(p.lines, sealed)
}

// end prints the rest. It adds to the error the number of IDs printed before
// it.
func (p *idPrinter) end(failed error, n int64) error {
	if failed != nil && p.had > 0 {
		failed = fmt.Errorf("%w; printed %d of %d IDs", failed, p.had, n)
	}
	if p.out.JSON && (failed == nil || p.had > 0) {
		found, err := p.report()
		p.err = errors.Join(err, p.out.Print(found))
	}
	return errors.Join(failed, p.err)
}

func (p *idPrinter) report() (found gotIDs, err error) {
	found.Tag = p.tag
	if p.ranges {
		for _, r := range p.all {
			found.Ranges = append(found.Ranges, firstLast(r))
		}
		return found, nil
	}
	for id := range messages.IDs(p.all) {
		found.IDs = append(found.IDs, strconv.FormatInt(id, 10))
		if p.seal == nil {
			continue
		}
		sealed, bad := p.seal(id)
		if bad != nil {
			return found, bad
		}
		if p.numbers {
			found.Numbers = append(found.Numbers, sealed)
		} else {
			found.Opaque = append(found.Opaque, sealed)
		}
	}
	return found, nil
}

// gotIDs is the JSON report: IDs or ranges.
type gotIDs struct {
	Tag     string      `json:"tag,omitempty"` // missing for snowflake IDs
	IDs     []string    `json:"ids,omitempty"`
	Opaque  []string    `json:"opaque,omitempty"`  // of each ID
	Numbers []string    `json:"numbers,omitempty"` // of each ID
	Ranges  []firstLast `json:"ranges,omitempty"`
}

// firstLast is a range.
type firstLast struct {
	First int64 `json:"first,string"`
	Last  int64 `json:"last,string"`
}

// Text implements report; IDs are printed as they arrive.
func (gotIDs) Text(io.Writer) error { return nil }
