package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
	"golang.org/x/crypto/bcrypt"
)

// TestHash: the server takes the password that the variable had, and a hash
// remains as it is. A slow hash is only for a password that might be guessed.
func TestHash(t *testing.T) {
	t.Parallel()
	const random, old = "p5c1f0a9d7e4b28365f0c9ad1e7b34268", "$2a$11$3kIDaCxw.Glsl1.u5nKa6eUnNDLV5HV9tIuUp7EHhMt6Nm9myW1aS"
	for name, test := range map[string]struct {
		value, password string
		cost            int
	}{
		"random":               {random, random, bcrypt.MinCost},
		"random, in quotes":    {`"` + random + `"`, random, bcrypt.MinCost},
		"chosen by a person":   {"secret", "secret", guessableCost},
		"with spaces":          {`"correct horse"`, "correct horse", guessableCost},
		"a hash":               {old, "", 11},
		"a hash in two quotes": {`"` + old + `"`, "", 11},
		"a hash of htpasswd":   {`"$2y` + old[len("$2y"):] + `"`, "", 11},
	} {
		var out bytes.Buffer
		lines := "HOME=/root\nIDS_ORDERS_ADMIN_PASSWORD=" + test.value + "\nIDS_ROUTE_PASSWORD=" + random + "\nIDS_GATEWAY_PASSWORD=" + random + "\n"
		if err := (hashCmd{}).Run(t.Context(), output{Writer: &out}, input{strings.NewReader(lines)}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// As the server reads the variable, with the quotes of a file of variables.
		read, err := conf.Parse(out.String())
		hash, _ := read["IDS_ORDERS_ADMIN_PASSWORD"].(string)
		if err != nil || len(read) != 1 {
			t.Errorf("%s: printed %q: %v", name, out.String(), err)
			continue
		}
		if cost, err := bcrypt.Cost([]byte(hash)); err != nil || cost != test.cost {
			t.Errorf("%s: cost %d, want %d: %v", name, cost, test.cost, err)
		}
		if test.password == "" {
			if hash != old {
				t.Errorf("%s: hashed again, %s", name, hash)
			}
		} else if err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(test.password)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHashRefuses: a password that the server would not read as such would lock
// its user out. No error shows it.
func TestHashRefuses(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{
		"nothing":        "",
		"a shell script": "export IDS_ADMIN_PASSWORD=canary\n",
		"empty":          "IDS_ADMIN_PASSWORD=\n",
		"a number":       "IDS_ADMIN_PASSWORD=15e\n",
		"an open quote":  "IDS_ADMIN_PASSWORD=\"canary\n",
		"two settings":   "IDS_ADMIN_PASSWORD=canary, user = admin\n",
		"a mark":         "\xef\xbb\xbfIDS_ADMIN_PASSWORD=canary\nIDS_ORDER_PASSWORD=canary\n",
		"too long":       "IDS_ADMIN_PASSWORD=" + strings.Repeat("canary", 13) + "\n",
	} {
		var out bytes.Buffer
		err := hashCmd{}.Run(t.Context(), output{Writer: &out}, input{strings.NewReader(lines)})
		if exitCode(err) != exitUsage || strings.Contains(err.Error(), "canary") || out.Len() > 0 {
			t.Errorf("%s: %v, printed %q", name, err, out.String())
		}
	}
}
