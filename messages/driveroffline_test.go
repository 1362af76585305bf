package messages_test

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

func decodeBody(_ *driver, _ context.Context, f struct {
	Body []byte
	N    string
}) (any, error) {
	n, err := parseCount(f.N)
	if err != nil {
		return nil, err
	}
	return rangesOf(messages.DecodeReply(&nats.Msg{Data: f.Body}, n))
}

func decodeReply(_ *driver, _ context.Context, f struct {
	Status  string
	Headers map[string][]string
	Body    []byte
	N       string
}) (any, error) {
	n, err := parseCount(f.N)
	if err != nil {
		return nil, err
	}
	msg := &nats.Msg{Header: nats.Header{}, Data: f.Body}
	for name, values := range f.Headers {
		msg.Header[name] = values
	}
	if f.Status != "" {
		msg.Header.Set("Status", f.Status) // as nats.go delivers it
	}
	return rangesOf(messages.DecodeReply(msg, n))
}

// checkCount makes a call that is cancelled already: it checks the count first.
func checkCount(_ *driver, ctx context.Context, f struct{ N string }) (any, error) {
	n, err := parseCount(f.N)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	client := messages.NewClient(new(nats.Conn), messages.DefaultPrefix)
	if _, err := client.NextN(ctx, "order", n); describe(err).Kind != "cancelled" {
		return nil, err
	}
	return map[string][]byte{"body": append([]byte{}, messages.EncodeCount(n)...)}, nil
}

func checkTag(_ *driver, _ context.Context, f struct{ Tag string }) (any, error) {
	return none{}, messages.CheckTag(f.Tag)
}

func checkPrefix(_ *driver, _ context.Context, f struct{ Prefix messages.Prefix }) (any, error) {
	return none{}, f.Prefix.Check()
}

func followPace(_ *driver, _ context.Context, f struct {
	RunwayMS int64 `json:"runway_ms"`
	Limit    int64
	Steps    [][2]int64
}) (any, error) {
	var steps []messages.Step
	for _, s := range f.Steps {
		steps = append(steps, messages.Step{Passed: time.Duration(s[0]) * time.Millisecond, Taken: s[1]})
	}
	targets, err := messages.Targets(messages.PrefetchConfig{Runway: time.Duration(f.RunwayMS) * time.Millisecond, Limit: f.Limit}, steps)
	return map[string][]int64{"targets": targets}, err
}
