package natsconn

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// ErrURL is the error for a server's URL that cannot be read.
var ErrURL = errors.New("cannot be read; it should look like nats://127.0.0.1:4222")

// Servers is the option to connect to one of a list of URLs, separated by commas. Its
// errors do not show the list, which may hold a password.
func Servers(list string) nats.Option {
	return func(o *nats.Options) error {
		var found []string
		for text := range strings.SplitSeq(list, ",") {
			server, ok := parseServer(text)
			if !ok {
				return fmt.Errorf("the URL at place %d %w, and special characters in a password have to be percent-encoded", len(found)+1, ErrURL)
			}
			found = append(found, server.String())
		}
		o.Servers = found
		return nil
	}
}

// parseServer reads the URL of a server, which may lack its scheme. An @ behind the host
// means that the password contains one of / ? #: what follows that would be taken for a
// path, and shown.
func parseServer(text string) (*url.URL, bool) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	server, err := url.Parse(text)
	return server, err == nil && server.Hostname() != "" &&
		!strings.Contains(server.Path+server.RawQuery+server.Fragment, "@")
}

// Redact returns a list of URLs without logins.
func Redact(list string) string {
	var shown []string
	for text := range strings.SplitSeq(list, ",") {
		server, ok := parseServer(text)
		switch {
		case !ok:
			shown = append(shown, "(unreadable)")
		case server.User != nil:
			server.User = url.User("xxxxx")
			shown = append(shown, server.String())
		default:
			shown = append(shown, strings.TrimSpace(text))
		}
	}
	return strings.Join(shown, ",")
}

// WithoutURL returns an error of connecting, without the URL in it that could not be read.
func WithoutURL(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return fmt.Errorf("its URL %w", ErrURL)
	}
	return err
}
