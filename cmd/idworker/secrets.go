package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/idworker/idworker/cmd/internal/explain"
)

// Secrets come from the environment or from files. Every user of the machine can read
// what is on a command line, so there is no flag for a secret. What is in a URL must not
// be written anywhere.

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

// checkCommandLine refuses a --server with a login in its URL. A user alone is a login,
// too: NATS takes it for a token.
func checkCommandLine(args []string) error {
	for n, arg := range args {
		list, ok := strings.CutPrefix(arg, "--server=")
		if arg == "--server" && n+1 < len(args) {
			list, ok = args[n+1], true
		}
		if ok && strings.Contains(list, "@") {
			return explain.Usage(errors.New("--server: a login in a URL on the command line can be read by everybody on this machine; set NATS_URL instead, or --creds, --nkey, or --user with NATS_PASSWORD or --password-file"))
		}
	}
	return nil
}
