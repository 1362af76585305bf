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

// Login makes an option the only way to log in: a NATS context may have another.
func Login(as nats.Option) nats.Option {
	return func(o *nats.Options) error {
		o.User, o.Password, o.UserInfo = "", "", nil
		o.Token, o.TokenHandler = "", nil
		o.Nkey, o.UserJWT, o.SignatureCB = "", nil, nil
		return as(o)
	}
}

// Credentials is the option to log in with a credentials file. It looks at the file now,
// while nats.go would only do so when it connects. The file is read again for each
// connection, because it may have been renewed.
func Credentials(file string) nats.Option {
	return func(o *nats.Options) error {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		_, jwtErr := nkeys.ParseDecoratedJWT(data)
		_, keyErr := nkeys.ParseDecoratedNKey(data)
		if jwtErr != nil || keyErr != nil {
			return fmt.Errorf("%s is no credentials file: it should hold a user JWT and an nkey seed, as nsc writes them", file)
		}
		return nats.UserCredentials(file)(o)
	}
}

// Nkey is the option to log in with the nkey whose seed is in a file.
func Nkey(file string) nats.Option {
	option, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return func(*nats.Options) error { return err }
	}
	return option
}

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
