package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestMadeUpNames: somebody makes up names for one template, 10,000 a second. Tags that nobody has asked for
// yet are answered all the same: those that were created, and those that come of another template.
func TestMadeUpNames(t *testing.T) {
	const cold = 20
	ns := natstest.Start(t)
	startWorker(t, ns.URL())
	as := settings{env: []string{"NATS_URL=" + ns.URL()}}
	as.mustRun(t, "tag", "create", "evil.*", "--template", "--step", "10", "--new-per-second", "0")
	as.mustRun(t, "tag", "create", "good.*", "--template", "--step", "10")
	for i := range cold {
		as.mustRun(t, "tag", "create", fmt.Sprint("cold", i), "--step", "10")
	}
	stop := makeUpNames(t, ns.URL(), 10_000)
	defer stop()
	client := dial(t, ns.URL())
	natstest.Eventually(t, "the template has more than it can take", func() bool {
		_, err := client.Next(t.Context(), fmt.Sprint("evil.", time.Now().UnixNano()))
		return err != nil
	})
	for i := range cold {
		for _, tag := range []string{fmt.Sprint("cold", i), fmt.Sprint("good.", i)} {
			if _, err := client.Next(t.Context(), tag); err != nil {
				t.Errorf("%s: %v", tag, err)
			}
		}
	}
}

// makeUpNames asks for tags that nobody knows, at a rate, and for nobody's use.
func makeUpNames(t *testing.T, url string, perSecond int) (stop func()) {
	t.Helper()
	const tick = 20 * time.Millisecond
	conn := connect(t, url)
	quiet, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for sent := 0; ; {
			for range perSecond * int(tick) / int(time.Second) {
				_ = conn.PublishRequest(messages.DefaultPrefix.Segment(fmt.Sprint("evil.x", sent)), "nobody", nil)
				sent++
			}
			_ = conn.Flush()
			select {
			case <-quiet:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { close(quiet); <-ended }
}
