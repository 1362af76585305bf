package nemesis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/messages"
)

// balancer sends requests to the workers in turn, over connections that it
// keeps, and tries the next worker when a worker refuses, is gone or is silent:
// like a load balancer.
type balancer struct {
	addresses []string
	silence   time.Duration // after which it goes on to the next
	client    *http.Client
	turn      atomic.Uint64
}

// httpSilence is the least time for which a caller should wait for an HTTP
// answer, see docs/protocol.md.
const httpSilence = 3 * time.Second

func newBalancer(addresses []string, silence time.Duration) *balancer {
	const kept = 16 // connections to each worker, more than there are callers
	return &balancer{
		addresses: addresses, silence: silence,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: kept}},
	}
}

// form is a way to request IDs and to encode them.
type form int

// The forms. Leaf has no batches.
const (
	asJSON form = iota
	asText
	asLeaf
)

// ask retries until it has IDs, an error is final, or the context ends. Answers
// of an abandoned worker are lost.
func (b *balancer) ask(ctx context.Context, as form, tag string, n int64) ([]messages.Range, error) {
	for tries := 1; ; tries++ {
		address := b.addresses[b.turn.Add(1)%uint64(len(b.addresses))]
		ranges, err := b.askOne(ctx, address, as, tag, n)
		if err == nil || isFinal(err) || ctx.Err() != nil {
			return ranges, err
		}
		if tries%len(b.addresses) == 0 { // no worker could answer
			sleep(ctx, 20*ms+rand.N(80*ms))
		}
	}
}

// askOne sends a request to a worker, once.
func (b *balancer) askOne(ctx context.Context, address string, as form, tag string, n int64) ([]messages.Range, error) {
	ctx, cancel := context.WithTimeout(ctx, b.silence)
	defer cancel()
	url := fmt.Sprintf("http://%s/v1/segment/%s?n=%d", address, tag, n)
	if as == asLeaf {
		url = fmt.Sprintf("http://%s/api/segment/get/%s", address, tag)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if as == asText {
		request.Header.Set("Accept", "text/plain")
	}
	response, err := b.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err // the connection was lost: a partial answer does not count
	}
	if response.StatusCode != http.StatusOK {
		return nil, refusal(as, response.StatusCode, body)
	}
	if as == asJSON {
		return decodeJSON(body)
	}
	return messages.DecodeRanges(body, n)
}

// decodeJSON reads IDs that are listed singly.
func decodeJSON(body []byte) (ranges []messages.Range, err error) {
	var reply struct {
		IDs []string `json:"ids"`
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return nil, fmt.Errorf("%w: %.60q: %w", messages.ErrReply, body, err)
	}
	for _, text := range reply.IDs {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", messages.ErrReply, err)
		}
		if last := len(ranges) - 1; last >= 0 && ranges[last].Last+1 == id {
			ranges[last].Last = id
			continue
		}
		ranges = append(ranges, messages.Range{First: id, Last: id})
	}
	if len(ranges) == 0 {
		return nil, fmt.Errorf("%w: no IDs in %.60q", messages.ErrReply, body)
	}
	return ranges, nil
}

// refusal is the error in an answer without IDs.
func refusal(as form, status int, body []byte) error {
	code, text := messages.Code(status), strings.TrimSpace(string(body))
	switch {
	case as == asLeaf && bytes.Contains(body, []byte("id=-2,")):
		code = messages.CodeNoTag
	case as == asLeaf && (bytes.Contains(body, []byte("id=-1,")) || bytes.Contains(body, []byte("id=-3,"))):
		code = messages.CodeUnavailable
	}
	switch code {
	case messages.CodeMalformed, messages.CodeNoTag, messages.CodeStrict, messages.CodeBusy, messages.CodeUnavailable, messages.CodeExhausted:
		return &messages.Error{Code: code, Text: text}
	}
	return fmt.Errorf("%w: status %d: %.200q", messages.ErrReply, status, text)
}

func (c *caller) httpPlain() *Call  { return c.askHTTP(plainTags) }
func (c *caller) httpStrict() *Call { return c.askHTTP(strictTags) }

// askHTTP requests IDs, in any form.
func (c *caller) askHTTP(tags []string) *Call {
	tag, as, n := tags[c.random.IntN(len(tags))], form(c.random.IntN(int(asLeaf)+1)), int64(1)
	if as != asLeaf && c.random.IntN(2) == 0 {
		n += c.random.Int64N(300)
	}
	return c.ask(tag, n, func(ctx context.Context) ([]messages.Range, error) { return c.http.ask(ctx, as, tag, n) })
}
