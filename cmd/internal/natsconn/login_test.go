package natsconn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/idworker/idworker/internal/secretfile"
)

// TestLogin: a login replaces any previous login.
func TestLogin(t *testing.T) {
	t.Parallel()
	seed, public := newNkey(t)
	file := filepath.Join(t.TempDir(), "seed")
	replace(t, file, seed)
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
	apply(t, &o, Nkey, file)
	if o.Nkey != public || o.User+o.Password != "" {
		t.Errorf("nkey %q, user %q", o.Nkey, o.User)
	}
}

func newNkey(t *testing.T) (seed, public string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	text, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err = pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return string(text), public
}

// newCertificate returns a certificate and its key, in PEM.
func newCertificate(t *testing.T, serial int64) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// replace replaces a file's content in one step.
func replace(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(content), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// apply applies the option of a file.
func apply(t *testing.T, o *nats.Options, option func(*secretfile.Set, string) (nats.Option, error), path string) {
	t.Helper()
	set, err := option(new(secretfile.Set), path)
	if err == nil {
		err = set(o)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReplacedFiles: each connection uses the secret that its file has then, or
// had last while the file is missing or half-written.
func TestReplacedFiles(t *testing.T) {
	t.Parallel()
	newCreds := func(version string) (file, shown string) {
		seed, public := newNkey(t)
		jwt := "eyJ." + version + ".x"
		return "-----BEGIN NATS USER JWT-----\n" + jwt + "\n------END NATS USER JWT------\n\n" +
			"-----BEGIN USER NKEY SEED-----\n" + seed + "\n------END USER NKEY SEED------\n", jwt + " " + public
	}
	first, shownFirst := newCreds("1")
	second, shownSecond := newCreds("2")
	seed, public := newNkey(t)
	other, _ := newNkey(t)
	pem1, pem2 := newCertificate(t, 1), newCertificate(t, 2)
	trusted := func(o nats.Options) string {
		got, err := o.RootCAsCB()
		for _, text := range []string{pem1, pem2} {
			pool := x509.NewCertPool()
			if pool.AppendCertsFromPEM([]byte(text)) && pool.Equal(got) {
				return text
			}
		}
		return fmt.Sprint("another: ", err)
	}
	// signer returns which of the users has signed.
	signer := func(o nats.Options, users ...string) string {
		signed, err := o.SignatureCB([]byte("nonce"))
		for _, user := range users {
			key, keyErr := nkeys.FromPublicKey(user)
			if err == nil && keyErr == nil && key.Verify([]byte("nonce"), signed) == nil {
				return user
			}
		}
		return fmt.Sprint("nobody: ", err)
	}
	userAndPassword := func(o nats.Options) string { user, password := o.UserInfo(); return user + " " + password }
	for name, test := range map[string]struct {
		option         func(*secretfile.Set, string) (nats.Option, error)
		first, second  string // the file's content
		use            func(nats.Options) string
		uses, usesThen string
		invalid        string
	}{
		"password": {
			func(files *secretfile.Set, path string) (nats.Option, error) { return Password(files, "alice", path) },
			"one\n", "two\n", userAndPassword, "alice one", "alice two", "\n",
		},
		"credentials": {Credentials, first, second, func(o nats.Options) string {
			jwt, _ := o.UserJWT()
			return jwt + " " + signer(o, strings.Fields(shownFirst)[1], strings.Fields(shownSecond)[1])
		}, shownFirst, shownSecond, first[:len(first)/2]},
		"nkey, and another user's": {Nkey, seed, "\n" + seed + "\n", func(o nats.Options) string { return signer(o, public) }, public, public, other},
		"user of a context": {
			func(files *secretfile.Set, path string) (nats.Option, error) { return Context(files, path), nil },
			`{"user": "u", "password": "p"}`, `{"user": "v", "password": "q"}`, userAndPassword, "u p", "v q", `{"user": "v`,
		},
		"token of a context": {
			func(files *secretfile.Set, path string) (nats.Option, error) { return Context(files, path), nil },
			`{"token": "t"}`, `{"token": "s"}`, func(o nats.Options) string { return o.TokenHandler() }, "t", "s", `{"creds": "x"}`,
		},
		"client certificate": {
			func(files *secretfile.Set, path string) (nats.Option, error) { return ClientCert(files, path, path) },
			pem1, pem2, func(o nats.Options) string {
				pair, err := o.TLSCertCB()
				return fmt.Sprint(pair.Leaf.SerialNumber, err, o.Secure)
			}, "1 <nil> true", "2 <nil> true", pem1[:len(pem1)/2],
		},
		"certificate authority": {RootCAs, pem1, pem2, trusted, pem1, pem2, pem1[:50]},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			replace(t, path, test.first)
			o := nats.Options{}
			if strings.HasPrefix(name, "user of") { // as the context's own options
				o.User, o.Password = "u", "p"
			} else if strings.HasPrefix(name, "token of") {
				o.Token = "t"
			}
			apply(t, &o, test.option, path)
			if got := test.use(o); got != test.uses || o.User+o.Password+o.Token != "" {
				t.Errorf("uses %q, want %q", got, test.uses)
			}
			replace(t, path, test.second)
			if got := test.use(o); got != test.usesThen {
				t.Errorf("then uses %q, want %q", got, test.usesThen)
			}
			replace(t, path, test.invalid)
			if got := test.use(o); got != test.usesThen {
				t.Errorf("an invalid file: uses %q", got)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if got := test.use(o); got != test.usesThen {
				t.Errorf("a missing file: uses %q", got)
			}
		})
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
		for how, option := range map[string]func(*secretfile.Set, string) (nats.Option, error){"credentials": Credentials, "nkey": Nkey, "CA": RootCAs} {
			if _, err := option(new(secretfile.Set), file); err == nil || strings.Contains(err.Error(), canary) {
				t.Errorf("%s, %s: %v", how, name, err)
			}
		}
	}
}

// TestContextFile: a context is found where the nats command has it, and in
// $HOME if the system has another home for the user. The error names all files
// that were looked for.
func TestContextFile(t *testing.T) {
	xdg, home := t.TempDir(), t.TempDir()
	as, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	const name = "of-a-test-of-idworker"
	inXDG, inHome := filepath.Join(xdg, "nats/context", name+".json"), filepath.Join(home, ".config/nats/context", name+".json")
	inPasswd := filepath.Join(as.HomeDir, ".config/nats/context", name+".json")
	for _, c := range []struct {
		xdg, home string
		exist     string
		want      string
	}{
		{xdg, home, inXDG, inXDG},
		{xdg, home, inHome, inHome},
		{"", home, inHome, inHome},
		{xdg, home, "", ""},
	} {
		t.Setenv("XDG_CONFIG_HOME", c.xdg)
		t.Setenv("HOME", c.home)
		if c.exist != "" {
			if err := errors.Join(os.MkdirAll(filepath.Dir(c.exist), 0o700), os.WriteFile(c.exist, []byte("{}"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ContextFile(name)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("XDG_CONFIG_HOME=%s HOME=%s: %q, %v; want %q", c.xdg, c.home, got, err, c.want)
		}
		for _, tried := range []string{inXDG, inHome, inPasswd} {
			if err != nil && !strings.Contains(err.Error(), tried) {
				t.Errorf("%v does not name %s", err, tried)
			}
		}
		if c.exist != "" {
			_ = os.Remove(c.exist)
		}
	}
	for _, bad := range []string{"../x", "a/b"} {
		if got, err := ContextFile(bad); err == nil {
			t.Errorf("%q: %s", bad, got)
		}
	}
}

// TestMarkedFiles: of each file with a secret, a byte-order mark is named, which
// an editor has written, and no secret.
func TestMarkedFiles(t *testing.T) {
	t.Parallel()
	seed, _ := newNkey(t)
	for what, c := range map[string]struct {
		option func(*secretfile.Set, string) (nats.Option, error)
		text   string
	}{
		"password":    {func(files *secretfile.Set, path string) (nats.Option, error) { return Password(files, "u", path) }, canary},
		"nkey":        {Nkey, seed},
		"certificate": {func(files *secretfile.Set, path string) (nats.Option, error) { return ClientCert(files, path, path) }, newCertificate(t, 1)},
		"authorities": {RootCAs, newCertificate(t, 1)},
		"context": {func(files *secretfile.Set, path string) (nats.Option, error) {
			return nil, Context(files, path)(&nats.Options{User: "u"})
		}, `{"user":"u","password":"` + canary + `"}`},
	} {
		for mark, encoding := range map[string]string{"\xEF\xBB\xBF": "UTF-8", "\xFF\xFE": "UTF-16", "\xFE\xFF": "UTF-16"} {
			path := filepath.Join(t.TempDir(), "file")
			replace(t, path, c.text)
			if _, err := c.option(new(secretfile.Set), path); err != nil {
				t.Errorf("%s without a mark: %v", what, err)
			}
			replace(t, path, mark+c.text)
			_, err := c.option(new(secretfile.Set), path)
			if !errors.Is(err, secretfile.ErrMark) || !strings.Contains(err.Error(), "mark of "+encoding) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), canary) {
				t.Errorf("%s in %s: %v", what, encoding, err)
			}
		}
	}
}
