package natsconn

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Secrets come from the environment or from files. Every user of the machine can read
// what is on a command line, so there is no flag for a secret. What is in a URL must not
// be written anywhere.

// Password is that of --user: the one in --password-file, if that is set.
func Password(file string) (string, error) {
	if file == "" {
		return cmp.Or(os.Getenv("IDWORKER_PASSWORD"), os.Getenv("NATS_PASSWORD")), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--password-file: %w", err)
	}
	password := strings.TrimRight(string(data), "\r\n")
	if password == "" {
		return "", fmt.Errorf("--password-file: %s is empty", file)
	}
	return password, nil
}

// CheckCommandLine refuses a --server with a login in its URL. A user alone is a login,
// too: NATS takes it for a token.
func CheckCommandLine(args []string) error {
	for n, arg := range args {
		list, ok := strings.CutPrefix(arg, "--server=")
		if arg == "--server" && n+1 < len(args) {
			list, ok = args[n+1], true
		}
		if ok && strings.Contains(list, "@") {
			return errors.New("--server: a login in a URL on the command line can be read by everybody on this machine; set NATS_URL instead, or --creds, --nkey, or --user with NATS_PASSWORD or --password-file")
		}
	}
	return nil
}
