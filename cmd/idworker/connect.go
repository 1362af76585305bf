package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/natscontext"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/messages"
)

// natsFlags select an installation: its NATS server, login and prefix.
// Flags have the names of the nats command, whose environment variables are
// accepted too.
type natsFlags struct {
	Server  string `help:"NATS server URLs, separated by commas." placeholder:"URL" env:"IDWORKER_SERVER,NATS_URL"`
	Context string `help:"NATS context: a name or an absolute path." placeholder:"NAME" env:"IDWORKER_CONTEXT,NATS_CONTEXT"`

	Creds        string `help:"Credentials file." type:"path" placeholder:"FILE" env:"IDWORKER_CREDS,NATS_CREDS"`
	Nkey         string `help:"File with an nkey seed." type:"path" placeholder:"FILE" env:"IDWORKER_NKEY,NATS_NKEY"`
	User         string `help:"User name; password from $NATS_PASSWORD or --password-file." placeholder:"NAME" env:"IDWORKER_USER,NATS_USER"`
	PasswordFile string `help:"Password file for --user." type:"path" placeholder:"FILE"`

	TLSCert string `name:"tlscert" help:"TLS client certificate, PEM." type:"path" placeholder:"FILE" env:"IDWORKER_TLSCERT,NATS_CERT"`
	TLSKey  string `name:"tlskey" help:"Private key of --tlscert, PEM." type:"path" placeholder:"FILE" env:"IDWORKER_TLSKEY,NATS_KEY"`
	TLSCA   string `name:"tlsca" help:"Trusted certificate authorities, PEM." type:"path" placeholder:"FILE" env:"IDWORKER_TLSCA,NATS_CA"`

	InboxPrefix string `help:"Subject prefix of replies (default: _INBOX)." placeholder:"SUBJECT"`
	JSDomain    string `name:"js-domain" help:"JetStream domain (default: the account's)." placeholder:"NAME"`

	Prefix messages.Prefix `help:"Prefix of subjects, streams and buckets." default:"ids"`
}

// named reports whether a server is set, directly or through a context.
func (i natsFlags) named() bool { return i.Server != "" || i.Context != "" }

// namedBy returns the flag or variable that sets the server, for messages.
func (i natsFlags) namedBy(command *kong.Context) string {
	for _, flag := range []string{"server", "context"} {
		if isGiven(command, flag) {
			return "--" + flag
		}
	}
	for _, variable := range []string{"IDWORKER_SERVER", "NATS_URL", "IDWORKER_CONTEXT", "NATS_CONTEXT"} {
		if os.Getenv(variable) != "" {
			return "the environment variable " + variable
		}
	}
	return "--server"
}

// isGiven reports whether a flag is on the command line.
func isGiven(command *kong.Context, name string) bool {
	return slices.ContainsFunc(command.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name })
}

// hasLogin reports whether settings are given that need a server of the user's.
func (i natsFlags) hasLogin() bool {
	return i.Creds+i.Nkey+i.User+i.TLSCert+i.TLSCA != ""
}

// String returns the server's address, without secrets.
func (i natsFlags) String() string {
	switch {
	case i.Server != "":
		return "at " + natsconn.Redact(i.Server)
	case i.Context != "":
		return "of context " + i.Context
	}
	return "at " + nats.DefaultURL
}

// natsDialer makes connections, all with the same options of nats.go.
type natsDialer struct {
	natsFlags
	options []nats.Option
}

// dialer converts the settings to options. It tries each one, so that an error
// names its flag and comes before anything else happens.
func (i natsFlags) dialer(files *secretfile.Set) (natsDialer, error) {
	d := natsDialer{natsFlags: i}
	if err := i.check(); err != nil {
		return d, err
	}
	if i.Context != "" {
		d.options = append(d.options, natsconn.Context(files, i.Context))
	}
	scratch := nats.GetDefaultOptions()
	for _, s := range []struct {
		flag   string
		value  string // skipped if empty
		option func() (nats.Option, error)
	}{
		{"--server", i.Server, func() (nats.Option, error) { return natsconn.Servers(i.Server), nil }},
		{"--creds", i.Creds, func() (nats.Option, error) { return natsconn.Credentials(files, i.Creds) }},
		{"--nkey", i.Nkey, func() (nats.Option, error) { return natsconn.Nkey(files, i.Nkey) }},
		{"--user", i.User, func() (nats.Option, error) { return i.userAndPassword(files) }},
		{"--tlscert, --tlskey", i.TLSCert, func() (nats.Option, error) { return natsconn.ClientCert(files, i.TLSCert, i.TLSKey) }},
		{"--tlsca", i.TLSCA, func() (nats.Option, error) { return natsconn.RootCAs(files, i.TLSCA) }},
		{"--inbox-prefix", i.InboxPrefix, func() (nats.Option, error) { return nats.CustomInboxPrefix(i.InboxPrefix), nil }},
	} {
		if s.value == "" {
			continue
		}
		option, err := s.option()
		if err == nil {
			err = option(&scratch)
		}
		if err != nil {
			return d, problem.Usage(fmt.Errorf("%s: %w", s.flag, err))
		}
		d.options = append(d.options, option)
	}
	return d, nil
}

// check rejects conflicting settings.
func (i natsFlags) check() error {
	logins := slices.DeleteFunc([]string{i.Creds, i.Nkey, i.User}, func(login string) bool { return login == "" })
	switch {
	case len(logins) > 1:
		return problem.Usage(errors.New("set only one of --creds, --nkey and --user, as flags or in the environment"))
	case i.PasswordFile != "" && i.User == "":
		return problem.Usage(errors.New("--password-file needs --user"))
	case (i.TLSCert == "") != (i.TLSKey == ""):
		return problem.Usage(errors.New("set both --tlscert and --tlskey"))
	}
	return i.Prefix.Check()
}

// userAndPassword is the option to log in as --user, with a password from a
// file or the environment. No flag holds a secret, because all users of the
// machine can read a command line.
func (i natsFlags) userAndPassword(files *secretfile.Set) (nats.Option, error) {
	if i.PasswordFile == "" {
		return natsconn.Login(nats.UserInfo(i.User, cmp.Or(os.Getenv("IDWORKER_PASSWORD"), os.Getenv("NATS_PASSWORD")))), nil
	}
	option, err := natsconn.Password(files, i.User, i.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("--password-file: %w", err)
	}
	return option, nil
}

// checkSecrets rejects logins on the command line, which all users of the
// machine can read. A user without a password in a server's URL is a login too:
// NATS takes it for a token.
func checkSecrets(args []string) error {
	for n, arg := range args {
		flag, value, hasValue := strings.Cut(arg, "=")
		if !hasValue && n+1 < len(args) {
			value = args[n+1]
		}
		switch {
		case flag == "--server" && strings.Contains(value, "@"):
			return errors.New("--server: other users of this machine can read a login on the command line; use $NATS_URL, --creds, --nkey or --user")
		case flag == "--store" && backend.HasPassword(value):
			return errors.New("--store: other users of this machine can read a password on the command line; use $IDWORKER_STORE or --store-file")
		}
	}
	return nil
}

// dial connects once, and opens the installation's JetStream.
func (i natsFlags) dial(more ...nats.Option) (*nats.Conn, jetstream.JetStream, error) {
	d, err := i.dialer(new(secretfile.Set))
	if err != nil {
		return nil, nil, err
	}
	return d.dial(more...)
}

// dial connects, and opens the installation's JetStream.
func (d natsDialer) dial(more ...nats.Option) (conn *nats.Conn, js jetstream.JetStream, err error) {
	options := slices.Concat(d.options, more)
	domain := d.JSDomain
	if d.Context == "" {
		conn, err = nats.Connect("", options...)
	} else {
		var settings natscontext.Settings
		var file string
		if file, err = natsconn.ContextFile(d.Context); err == nil {
			conn, settings, err = natscontext.Connect(file, options...)
		}
		if content, unread := os.ReadFile(file); err != nil && unread == nil {
			if mark := secretfile.CheckMark(content); mark != nil {
				err = fmt.Errorf("%s: %w", file, mark)
			}
		}
		domain = cmp.Or(domain, settings.JSDomain)
		if err == nil && domain == "" && settings.JSAPIPrefix != "" {
			conn.Close()
			err = errors.New("the context's JetStream API prefix is not supported; set jetstream_domain or --js-domain")
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect to NATS %s: %w", d, natsconn.WithoutURL(err))
	}
	if domain == "" {
		js, err = jetstream.New(conn)
	} else {
		js, err = jetstream.NewWithDomain(conn, domain)
	}
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("--js-domain: %w", err)
	}
	return conn, js, nil
}

// dialToStay connects a process that serves. It waits for an unreachable
// server.
func (d natsDialer) dialToStay(ctx context.Context, name string, own natsconn.Own, log *zap.Logger, more ...nats.Option) (conn *nats.Conn, js jetstream.JetStream, err error) {
	type dialed struct {
		conn *nats.Conn
		js   jetstream.JetStream
	}
	made := make(chan dialed, 1)
	err = natsconn.Await(ctx, log, func() error {
		conn, js, err := d.dial(append(natsconn.Stay(name, own, log), more...)...)
		switch {
		case err != nil:
		case ctx.Err() != nil:
			conn.Close()
		default:
			made <- dialed{conn, js}
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	m := <-made
	return m.conn, m.js, nil
}

// connect connects a command that ends when its work is done.
func (i natsFlags) connect(more ...nats.Option) (*nats.Conn, jetstream.JetStream, error) {
	conn, js, err := i.dial(append([]nats.Option{nats.Name("idworker"), nats.ReconnectBufSize(-1)}, more...)...)
	switch {
	case errors.Is(err, nats.ErrNoServers):
		err = fmt.Errorf("%w; %s", err, i.unreachable())
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, nats.ErrNoInfoReceived):
		err = fmt.Errorf("%w; the listener there is overloaded or no NATS server; use yours with --server", err)
	}
	return conn, js, err
}

// unreachable is the advice without a server. A new server in place of a named
// server that is down would begin at 1.
func (i natsFlags) unreachable() string {
	if i.named() {
		return "check the address; if that server is down, start it again, with its data"
	}
	return "start one with idworker serve, or use yours with --server"
}

// commandTimeout bounds a command that sends a few requests to JetStream.
const commandTimeout = 30 * time.Second

// withJetStream connects and calls use, for at most commandTimeout.
func (i natsFlags) withJetStream(ctx context.Context, use func(context.Context, jetstream.JetStream) error) error {
	return i.withPatientJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		ctx, cancel := context.WithTimeout(ctx, commandTimeout)
		defer cancel()
		return use(ctx, js)
	})
}

// withPatientJetStream is withJetStream for work that grows with the number of
// tags. Its requests have timeouts, the whole has none.
func (i natsFlags) withPatientJetStream(ctx context.Context, use func(context.Context, jetstream.JetStream) error) error {
	conn, js, err := i.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, explainDenied := natsconn.WhenDenied(ctx, natsconn.OwnAny, conn)
	return explainDenied(use(ctx, js))
}

// storeFlags select the store of segments.
type storeFlags struct {
	Store     string `help:"Store: jetstream, mysql://… or postgres://…" default:"jetstream" placeholder:"DSN"`
	StoreFile string `help:"File with the store's DSN." type:"path" placeholder:"FILE"`
	Table     string `help:"Leaf table in the database." default:"leaf_alloc"`
}

// backend parses the flags and the file. A command calls it once, before
// anything else.
func (f storeFlags) backend() (backend.Backend, error) { return f.backendOf(new(secretfile.Set)) }

// backendOf is backend for a command that serves.
func (f storeFlags) backendOf(files *secretfile.Set) (b backend.Backend, err error) {
	flag := "--store"
	if f.StoreFile != "" {
		flag = "--store-file"
		b, err = backend.ParseFile(files, f.StoreFile, f.Table)
	} else {
		b, err = backend.Parse(f.Store, f.Table)
	}
	if err == nil {
		return b, nil
	}
	var unread *os.PathError
	if !errors.Is(err, backend.ErrScheme) && !errors.As(err, &unread) {
		flag += ", --table"
	}
	return b, problem.Usage(fmt.Errorf("%s: %w", flag, err))
}
