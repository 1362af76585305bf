package natsconn

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Login makes an option the only login: a NATS context may have another.
func Login(as nats.Option) nats.Option {
	return func(o *nats.Options) error {
		o.User, o.Password, o.UserInfo = "", "", nil
		o.Token, o.TokenHandler = "", nil
		o.Nkey, o.UserJWT, o.SignatureCB = "", nil, nil
		return as(o)
	}
}

// Credentials is the option to log in with a credentials file. It checks the
// file now, while nats.go would only do so when it connects. nats.go rereads
// the file for each connection, because it may have been renewed.
func Credentials(file string) nats.Option {
	return func(o *nats.Options) error {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		_, jwtErr := nkeys.ParseDecoratedJWT(data)
		_, keyErr := nkeys.ParseDecoratedNKey(data)
		if jwtErr != nil || keyErr != nil {
			return fmt.Errorf("%s is not a credentials file with a user JWT and an nkey seed", file)
		}
		return nats.UserCredentials(file)(o)
	}
}

// Nkey is the option to log in with an nkey, given the file with its seed.
func Nkey(file string) nats.Option {
	option, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return func(*nats.Options) error { return err }
	}
	return option
}

// ErrURL is the error for a malformed server URL.
var ErrURL = errors.New("is malformed; expected the form nats://127.0.0.1:4222")

// Servers is the option to connect to a list of URLs, separated by commas. Its
// errors do not show the list, which may contain a password.
func Servers(list string) nats.Option {
	return func(o *nats.Options) error {
		var found []string
		for text := range strings.SplitSeq(list, ",") {
			server, ok := parseServer(text)
			if !ok {
				return fmt.Errorf("URL %d %w, with special characters in a password percent-encoded", len(found)+1, ErrURL)
			}
			found = append(found, server.String())
		}
		o.Servers = found
		return nil
	}
}

// parseServer parses a server's URL, which may lack its scheme. An @ after the
// host means that the password contains / ? or #: the text after that would be
// taken for a path, and shown.
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

// WithoutURL removes a malformed URL from an error of connecting.
func WithoutURL(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return fmt.Errorf("its URL %w", ErrURL)
	}
	return err
}
