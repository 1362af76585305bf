package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
)

// Secrets come from the environment or from files. What is on a command line, every
// user of the machine can read, so there is no flag for one, and what is in a URL must
// not be written anywhere.

// password is that of --user.
func (i installation) password() (string, error) {
	if i.PasswordFile == "" {
		return cmp.Or(os.Getenv("IDWORKER_PASSWORD"), os.Getenv("NATS_PASSWORD")), nil
	}
	data, err := os.ReadFile(i.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("--password-file: %w", err)
	}
	password := strings.TrimRight(string(data), "\r\n")
	if password == "" {
		return "", fmt.Errorf("--password-file: %s is empty", i.PasswordFile)
	}
	return password, nil
}

// checkCommandLine refuses a --server with a login in its URL. The user alone is one,
// too: NATS takes it for a token.
func checkCommandLine(args []string) error {
	for n, arg := range args {
		list, ok := strings.CutPrefix(arg, "--server=")
		if arg == "--server" && n+1 < len(args) {
			list, ok = args[n+1], true
		}
		if ok && strings.Contains(list, "@") {
			return &usageError{errors.New("--server: a login in a URL on the command line can be read by everybody on this machine; set NATS_URL instead, or --creds, --nkey, or --user with NATS_PASSWORD or --password-file")}
		}
	}
	return nil
}

// servers makes a list of URLs the servers to connect to. Its errors do not show the
// list, which may hold a password.
func servers(list string) nats.Option {
	return func(o *nats.Options) error {
		var found []string
		for text := range strings.SplitSeq(list, ",") {
			server, ok := parseServer(text)
			if !ok {
				return fmt.Errorf("the URL at place %d cannot be read; it should look like nats://127.0.0.1:4222, and special characters in a password have to be percent-encoded", len(found)+1)
			}
			found = append(found, server.String())
		}
		o.Servers = found
		return nil
	}
}

// parseServer reads the URL of a server, which may come without its scheme. An @ behind
// the host says that the password has one of /?# in it: what follows that would be taken
// for a path, and shown.
func parseServer(text string) (*url.URL, bool) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	server, err := url.Parse(text)
	return server, err == nil && server.Hostname() != "" &&
		!strings.Contains(server.Path+server.RawQuery+server.Fragment, "@")
}

// redact returns a list of URLs without logins.
func redact(list string) string {
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

// withoutURL is an error without the URL that could not be read.
func withoutURL(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return errors.New("its URL cannot be read; it should look like nats://127.0.0.1:4222")
	}
	return err
}
