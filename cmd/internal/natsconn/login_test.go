package natsconn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// TestLogin: a login replaces any previous login.
func TestLogin(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	sign := func([]byte) ([]byte, error) { return nil, nil }
	o := nats.Options{User: "u", Password: canary, Token: canary, Nkey: "other",
		UserInfo:     func() (string, string) { return "u", canary },
		TokenHandler: func() string { return canary },
		UserJWT:      func() (string, error) { return canary, nil },
		SignatureCB:  sign,
	}
	if err := Login(nats.UserInfo("alice", "secret"))(&o); err != nil {
		t.Fatal(err)
	}
	if o.User != "alice" || o.Password != "secret" || o.UserInfo != nil || o.Token != "" || o.TokenHandler != nil || o.Nkey != "" || o.UserJWT != nil || o.SignatureCB != nil {
		t.Errorf("something of the other login is left: %+v", o)
	}
	if err := Login(Nkey(file))(&o); err != nil {
		t.Fatal(err)
	}
	if public, _ := pair.PublicKey(); o.Nkey != public || o.User+o.Password != "" {
		t.Errorf("nkey %q, user %q", o.Nkey, o.User)
	}
}

// TestBadLoginFiles: missing and malformed files are rejected at once, and
// their contents are not shown.
func TestBadLoginFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	seedOnly := "-----BEGIN USER NKEY SEED-----\nSU" + canary + "\n------END USER NKEY SEED------\n"
	for name, file := range map[string]string{
		"missing":    filepath.Join(dir, "missing"),
		"a folder":   dir,
		"empty":      write("empty", ""),
		"a text":     write("text", canary),
		"half of it": write("half", seedOnly),
	} {
		for how, option := range map[string]nats.Option{"credentials": Credentials(file), "nkey": Nkey(file)} {
			if err := option(&nats.Options{}); err == nil || strings.Contains(err.Error(), canary) {
				t.Errorf("%s, %s: %v", how, name, err)
			}
		}
	}
}
