package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/embedded"
	"github.com/idworker/idworker/internal/natsconn"
	"github.com/idworker/idworker/internal/resource"
)

// TestAdvice: each error that has a remedy on the command line names it, and only that.
func TestAdvice(t *testing.T) {
	remedies := []string{"--server", "--first", "idworker provision", "--inbox-prefix", "nats.conf"}
	for _, test := range []struct {
		err    error
		remedy string
	}{
		{embedded.ErrInUse, "--server"},
		{embedded.ErrDamaged, "--first"},
		{&natsconn.DeniedError{What: `Publish to "a"`, Missing: resource.Bucket(jetstream.KeyValueConfig{Bucket: "b"})}, "idworker provision"},
		{&natsconn.DeniedError{What: `Subscription to "_INBOX.x"`}, "--inbox-prefix"},
		{&natsconn.DeniedError{What: `Publish to "_INBOX.x"`}, "nats.conf"},
		{errors.New("anything"), ""},
	} {
		text := advise(wrapped(test.err)).Error()
		if !strings.Contains(text, test.err.Error()) {
			t.Errorf("%q does not say %q", text, test.err)
		}
		for _, remedy := range remedies {
			if strings.Contains(text, remedy) != (remedy == test.remedy) {
				t.Errorf("%q, want the remedy %q and no other", text, test.remedy)
			}
		}
	}
	if err := advise(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
