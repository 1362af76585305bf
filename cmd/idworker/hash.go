package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/nats-io/nats-server/v2/conf"
	"golang.org/x/crypto/bcrypt"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/secretfile"
)

// hashCmd hashes the passwords of NATS users, so that the server's environment
// holds none that anyone could log in with.
type hashCmd struct{}

// userPassword is a line with the password of a user of nats.conf.
var userPassword = regexp.MustCompile(`^(IDS_(?:[A-Z0-9_]+_)?PASSWORD)=(.*)$`)

// betweenServers are the passwords that servers send to each other. A server
// needs the password itself for that.
var betweenServers = map[string]bool{"IDS_ROUTE_PASSWORD": true, "IDS_GATEWAY_PASSWORD": true}

// Run prints the lines with hashes, for a shell, or a file of variables. It
// prints nothing before it has read all, so a command may append to the file
// that it reads.
func (hashCmd) Run(ctx context.Context, out output, in input) error {
	read, err := untilDone(ctx, func() ([]byte, error) { return io.ReadAll(in) })
	if err != nil {
		return err
	}
	if err := secretfile.CheckMark(read); err != nil {
		return problem.Usage(err)
	}
	var hashed strings.Builder
	for line := range strings.Lines(string(read)) {
		found := userPassword.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if found == nil || betweenServers[found[1]] {
			continue
		}
		hash, err := hashPassword(found[2])
		if err != nil {
			return problem.Usage(fmt.Errorf("%s: %w", found[1], err))
		}
		fmt.Fprintf(&hashed, "%s='%s'\n", found[1], hash)
	}
	if hashed.Len() == 0 {
		return problem.Usage(errors.New("no password to hash: pass lines such as IDS_WORKER_PASSWORD=secret, as printed by env, on standard input"))
	}
	_, err = io.WriteString(out, hashed.String())
	return err
}

const (
	// randomLength is the length of a password that is hashed as a random one,
	// such as 32 hexadecimal digits. Nobody can guess it, however fast a guess is,
	// and a slow hash would cost the server that time at each login: with a
	// thousand callers that reconnect, minutes.
	randomLength = 20
	// guessableCost is that of `nats server passwd`.
	guessableCost = 11
)

// hashPassword hashes the value of a variable, which the server reads in the
// syntax of its configuration. A hash remains one.
func hashPassword(value string) (string, error) {
	parsed, err := conf.Parse("password = " + value)
	password, ok := parsed["password"].(string)
	if err != nil || !ok || len(parsed) != 1 || password == "" {
		// The parser's error may contain the password.
		return "", errors.New("the NATS server would not read it as a string: put it in double quotes")
	}
	if _, err := bcrypt.Cost([]byte(password)); err == nil {
		// Without another pair of quotes, the server takes any other prefix for a
		// variable. The algorithm is the same.
		return "$2a$" + password[len("$2a$"):], nil
	}
	cost := guessableCost
	if len(password) >= randomLength {
		cost = bcrypt.MinCost
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	return string(hash), err
}
