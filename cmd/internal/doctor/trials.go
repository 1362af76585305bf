package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// Trial is something that is tried, since nobody can be asked whether it works.
type Trial struct {
	What string
	Try  func(context.Context) (good string, err error)
}

// ErrNobody is wrapped by the finding that a request for IDs was not answered.
var ErrNobody = problem.New(problem.NobodyAnswers, "no worker answers")

// anyTag is a tag for requests that are refused whatever the tag.
const anyTag = "doctor"

// Requests are requests for IDs, as a caller sends them: for those of a tag, or, if it is empty, of any
// tag, and for snowflake IDs. They ask for more than there can be. So they are refused, and none is lost, but
// only a worker that got one can refuse it.
func Requests(conn *nats.Conn, prefix messages.Prefix, tag string) []Trial {
	client := messages.NewClient(conn, prefix)
	segment := func(tag string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			_, err := client.NextN(ctx, tag, math.MaxInt64)
			return refusedBy(err)
		}
	}
	if tag != "" {
		return []Trial{{"requests for tag " + tag, segment(tag)}}
	}
	return []Trial{{"requests for tags", segment(anyTag)}, {"requests for snowflake IDs", func(ctx context.Context) (string, error) {
		_, err := client.SnowflakeN(ctx, math.MaxInt64)
		return refusedBy(err)
	}}}
}

// allowed finds in a worker's refusal how many IDs there are at once.
var allowed = regexp.MustCompile(`a decimal from (1 to \d+)`)

// refusedBy reads what became of a request that a worker refuses.
func refusedBy(err error) (good string, _ error) {
	switch {
	case errors.Is(err, messages.ErrMalformed):
		good = "a worker answers"
		if found := allowed.FindStringSubmatch(err.Error()); found != nil {
			good += ", and gives " + found[1] + " IDs at once"
		}
		return good, nil
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout):
		return "", fmt.Errorf("%w: %w", ErrNobody, err)
	}
	return "", err
}

// trialTime is how long a request may wait for a worker: longer than a restart takes.
const trialTime = 2 * time.Second

func (d *Doctor) examineTrials(ctx context.Context, find func(Finding)) {
	for _, t := range d.Trials {
		var good string
		err := d.ask(ctx, func(ctx context.Context) (err error) {
			ctx, cancel := context.WithTimeout(ctx, trialTime)
			defer cancel()
			good, err = t.Try(ctx)
			return err
		})
		if errors.Is(err, nats.ErrPermissionViolation) {
			err = natsconn.Denied(err, nil)
		}
		find(Finding{What: t.What, Err: err, Good: good})
	}
}
