package natsconn

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/idworker/idworker/internal/secretfile"
)

// The options of this file read their secrets now, so that an error comes at a
// start, and for each connection, because they may have been replaced.

// Login makes an option the only login: a NATS context may have another.
func Login(as nats.Option) nats.Option {
	return func(o *nats.Options) error {
		o.User, o.Password, o.UserInfo = "", "", nil
		o.Token, o.TokenHandler = "", nil
		o.Nkey, o.UserJWT, o.SignatureCB = "", nil, nil
		return as(o)
	}
}

// Password is the option to log in as a user with a password in a file.
func Password(files *secretfile.Set, user, path string) (nats.Option, error) {
	password, err := secretfile.Open(files, "NATS password", func(contents [][]byte) (string, error) {
		password := strings.TrimRight(string(contents[0]), "\r\n")
		if password == "" {
			return "", errors.New("the file is empty")
		}
		return password, secretfile.CheckMark(contents[0])
	}, path)
	return Login(nats.UserInfoHandler(func() (string, string) { return user, password.Read() })), err
}

// credentials are the contents of a credentials file.
type credentials struct {
	jwt string
	key nkeys.KeyPair
}

// Credentials is the option to log in with a credentials file.
func Credentials(files *secretfile.Set, path string) (nats.Option, error) {
	file, err := secretfile.Open(files, "NATS credentials", func(contents [][]byte) (credentials, error) {
		jwt, jwtErr := nkeys.ParseDecoratedJWT(contents[0])
		key, keyErr := nkeys.ParseDecoratedNKey(contents[0])
		if jwtErr != nil || keyErr != nil || !strings.HasPrefix(jwt, "eyJ") {
			return credentials{}, errors.New("not a credentials file with a user JWT and an nkey seed")
		}
		return credentials{jwt, key}, nil
	}, path)
	if err != nil {
		return nil, err
	}
	return Login(nats.UserJWT(
		func() (string, error) { return file.Read().jwt, nil },
		func(nonce []byte) ([]byte, error) { return file.Last().key.Sign(nonce) },
	)), nil
}

// Nkey is the option to log in with an nkey, given the file with its seed. A
// connection keeps the nkey's public part, which is the user.
func Nkey(files *secretfile.Set, path string) (nats.Option, error) {
	user := ""
	key, err := secretfile.Open(files, "nkey", func(contents [][]byte) (nkeys.KeyPair, error) {
		key, err := nkeys.ParseDecoratedNKey(contents[0])
		if err != nil {
			return nil, err
		}
		public, err := key.PublicKey()
		switch {
		case err != nil || !nkeys.IsValidPublicUserKey(public):
			return nil, errors.New("not the seed of a user's nkey")
		case user == "":
			user = public
		case user != public:
			return nil, errors.New("the nkey is another user's; restart to log in with it")
		}
		return key, nil
	}, path)
	return Login(nats.Nkey(user, func(nonce []byte) ([]byte, error) { return key.Read().Sign(nonce) })), err
}

// Context is the option to log in with the password or token in a NATS context,
// after the options of the context itself, which read it once.
func Context(files *secretfile.Set, name string) nats.Option {
	type login struct{ User, Password, Token string }
	open := sync.OnceValues(func() (*secretfile.Files[login], error) {
		path, err := ContextFile(name)
		if err != nil {
			return nil, err
		}
		return secretfile.Open(files, "NATS context", func(contents [][]byte) (as login, err error) {
			if json.Unmarshal(contents[0], &as) != nil || as.User+as.Token == "" { // the error may quote it
				err = errors.New("not a NATS context with a user or a token")
			}
			return as, err
		}, path)
	})
	return func(o *nats.Options) error {
		if o.User+o.Token == "" {
			return nil
		}
		file, err := open()
		if err != nil {
			return err
		}
		if o.User != "" {
			o.User, o.Password = "", ""
			o.UserInfo = func() (string, string) { as := file.Read(); return as.User, as.Password }
		}
		if o.Token != "" {
			o.Token, o.TokenHandler = "", func() string { return file.Read().Token }
		}
		return nil
	}
}

// ContextFile returns the file of a NATS context: a path, or a name that is
// looked up where the nats command does, in $XDG_CONFIG_HOME, or else in the home
// that the system has for the user. Under sudo -E, or as a user whom the system
// does not know, as in a container, the file may be in $HOME, which comes last.
func ContextFile(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if strings.Contains(name, "..") || strings.ContainsRune(name, filepath.Separator) {
		return "", fmt.Errorf("invalid context name %q", name)
	}
	var tried []string
	for _, folder := range configFolders() {
		path := filepath.Join(folder, "nats", "context", name+".json")
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return path, nil // an unreadable one is reported by whoever reads it
		}
		if !slices.Contains(tried, path) {
			tried = append(tried, path)
		}
	}
	if len(tried) == 0 {
		return "", fmt.Errorf("unknown context %q: neither XDG_CONFIG_HOME nor HOME is set", name)
	}
	return "", fmt.Errorf("unknown context %q: no file %s", name, strings.Join(tried, ", nor "))
}

// configFolders are the folders that may have the settings of the nats command.
func configFolders() (folders []string) {
	if folder := os.Getenv("XDG_CONFIG_HOME"); folder != "" {
		folders = append(folders, folder)
	}
	if as, err := user.Current(); err == nil && as.HomeDir != "" {
		folders = append(folders, filepath.Join(as.HomeDir, ".config"))
	}
	if home := os.Getenv("HOME"); home != "" {
		folders = append(folders, filepath.Join(home, ".config"))
	}
	return folders
}

// ClientCert is the option to present a certificate.
func ClientCert(files *secretfile.Set, certificate, key string) (nats.Option, error) {
	pair, err := secretfile.OpenCertificate(files, "NATS client certificate", "nats", certificate, key)
	return withTLS(func(o *nats.Options) { o.TLSCertCB = func() (tls.Certificate, error) { return *pair.Read(), nil } }), err
}

// RootCAs is the option to trust certificate authorities.
func RootCAs(files *secretfile.Set, path string) (nats.Option, error) {
	pool, err := secretfile.Open(files, "NATS certificate authorities", func(contents [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, errors.New("no certificates in PEM")
		}
		return pool, nil
	}, path)
	return withTLS(func(o *nats.Options) { o.RootCAsCB = func() (*x509.CertPool, error) { return pool.Read(), nil } }), err
}

func withTLS(set func(*nats.Options)) nats.Option {
	return func(o *nats.Options) error {
		set(o)
		o.Secure = true
		if o.TLSConfig == nil {
			o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		return nil
	}
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

// Hosts returns the hosts of servers, HOST or HOST:PORT each. It skips what
// cannot be read.
func Hosts(list string) (hosts []string) {
	for text := range strings.SplitSeq(list, ",") {
		if server, ok := parseServer(text); ok {
			hosts = append(hosts, server.Host)
		}
	}
	return hosts
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
