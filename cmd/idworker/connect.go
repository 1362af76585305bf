package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/synadia-io/orbit.go/natscontext"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
)

// installation says which idworker installation on which server a command talks to,
// and as whom. What has a name in NATS has it here: the flags are those of the nats
// command, and its environment variables are understood beside ours.
type installation struct {
	Server  string `help:"URL of the NATS server; several are separated by commas." placeholder:"URL" env:"IDWORKER_SERVER,NATS_URL"`
	Context string `help:"NATS context to connect with: its name, or the absolute path of its file. What is set besides counts more." placeholder:"NAME" env:"IDWORKER_CONTEXT,NATS_CONTEXT"`

	Creds        string `help:"Log in with this credentials file." type:"path" placeholder:"FILE" env:"IDWORKER_CREDS,NATS_CREDS"`
	Nkey         string `help:"Log in with the nkey whose seed is in this file." type:"path" placeholder:"FILE" env:"IDWORKER_NKEY,NATS_NKEY"`
	User         string `help:"Log in as this user. The password is in $NATS_PASSWORD or --password-file." placeholder:"NAME" env:"IDWORKER_USER,NATS_USER"`
	PasswordFile string `help:"File with the password of --user." type:"path" placeholder:"FILE"`

	TLSCert string `name:"tlscert" help:"TLS client certificate, PEM." type:"path" placeholder:"FILE" env:"IDWORKER_TLSCERT,NATS_CERT"`
	TLSKey  string `name:"tlskey" help:"Private key of --tlscert, PEM." type:"path" placeholder:"FILE" env:"IDWORKER_TLSKEY,NATS_KEY"`
	TLSCA   string `name:"tlsca" help:"Certificate authorities that the server is checked against, PEM." type:"path" placeholder:"FILE" env:"IDWORKER_TLSCA,NATS_CA"`

	InboxPrefix string `help:"Where replies are received, if the user may not use _INBOX." placeholder:"SUBJECT"`
	JSDomain    string `name:"js-domain" help:"JetStream domain of the installation, if it is not the account's own." placeholder:"NAME"`

	Prefix messages.Prefix `help:"First token of all subjects and names." default:"ids"`
}

// named reports whether a server is named, by itself or by a context.
func (i installation) named() bool { return i.Server != "" || i.Context != "" }

// hasLogin reports whether there are settings that only a server that is named needs.
func (i installation) hasLogin() bool {
	return i.Creds+i.Nkey+i.User+i.TLSCert+i.TLSCA != ""
}

// String says where the server is, without secrets.
func (i installation) String() string {
	switch {
	case i.Server != "":
		return "at " + redact(i.Server)
	case i.Context != "":
		return "of context " + i.Context
	}
	return "at " + nats.DefaultURL
}

// options are the settings as nats.go takes them: all connections of all commands
// get theirs here. Each is tried out, so that an error names the flag, and comes before
// anything has been done.
func (i installation) options() ([]nats.Option, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	var options []nats.Option
	scratch := nats.GetDefaultOptions()
	for _, s := range []struct {
		flag   string
		value  string // not set if empty
		option nats.Option
	}{
		{"--server", i.Server, servers(i.Server)},
		{"--creds", i.Creds, login(credentials(i.Creds))},
		{"--nkey", i.Nkey, login(nkey(i.Nkey))},
		{"--user", i.User, login(i.userAndPassword)},
		{"--tlscert, --tlskey", i.TLSCert, nats.ClientCert(i.TLSCert, i.TLSKey)},
		{"--tlsca", i.TLSCA, nats.RootCAs(i.TLSCA)},
		{"--inbox-prefix", i.InboxPrefix, nats.CustomInboxPrefix(i.InboxPrefix)},
	} {
		if s.value == "" {
			continue
		}
		if err := s.option(&scratch); err != nil {
			return nil, &usageError{fmt.Errorf("%s: %w", s.flag, err)}
		}
		options = append(options, s.option)
	}
	return options, nil
}

// check says which settings do not go together.
func (i installation) check() error {
	logins := 0
	for _, login := range []string{i.Creds, i.Nkey, i.User} {
		if login != "" {
			logins++
		}
	}
	switch {
	case logins > 1:
		return &usageError{errors.New("--creds, --nkey and --user are three ways to log in: set one, here or in the environment")}
	case i.PasswordFile != "" && i.User == "":
		return &usageError{errors.New("--password-file: whose password? Set --user, too")}
	case (i.TLSCert == "") != (i.TLSKey == ""):
		return &usageError{errors.New("--tlscert and --tlskey belong together: set both")}
	}
	return i.Prefix.Check()
}

// login makes an option the only way to log in: a context may have another.
func login(as nats.Option) nats.Option {
	return func(o *nats.Options) error {
		o.User, o.Password, o.UserInfo = "", "", nil
		o.Token, o.TokenHandler = "", nil
		o.Nkey, o.UserJWT, o.SignatureCB = "", nil, nil
		return as(o)
	}
}

// credentials looks at the file now, while nats.go would only do so when it connects.
// It is read again for each connection: it may have been renewed.
func credentials(file string) nats.Option {
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

func nkey(file string) nats.Option {
	return func(o *nats.Options) error {
		option, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			return err
		}
		return option(o)
	}
}

func (i installation) userAndPassword(o *nats.Options) error {
	password, err := i.password()
	if err != nil {
		return err
	}
	return nats.UserInfo(i.User, password)(o)
}

// dial connects, and opens the installation's JetStream.
func (i installation) dial(more ...nats.Option) (*nats.Conn, jetstream.JetStream, error) {
	options, err := i.options()
	if err != nil {
		return nil, nil, err
	}
	options = append(options, more...)
	var conn *nats.Conn
	domain := i.JSDomain
	if i.Context == "" {
		conn, err = nats.Connect("", options...)
	} else {
		conn, domain, err = i.dialContext(options)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect to NATS %s: %w", i, withoutURL(err))
	}
	js, err := openJetStream(conn, domain)
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("--js-domain: %w", err)
	}
	return conn, js, nil
}

// dialContext connects with a context, and returns the JetStream domain.
func (i installation) dialContext(options []nats.Option) (conn *nats.Conn, domain string, err error) {
	conn, settings, err := natscontext.Connect(i.Context, options...)
	if err != nil {
		return nil, "", err
	}
	if i.JSDomain != "" {
		return conn, i.JSDomain, nil
	}
	if settings.JSAPIPrefix != "" && settings.JSDomain == "" {
		conn.Close()
		return nil, "", errors.New("the context has a JetStream API prefix, which is not supported; set jetstream_domain there, or --js-domain")
	}
	return conn, settings.JSDomain, nil
}

func openJetStream(conn *nats.Conn, domain string) (jetstream.JetStream, error) {
	if domain == "" {
		return jetstream.New(conn)
	}
	return jetstream.NewWithDomain(conn, domain)
}

// connect connects a command that asks one thing and ends.
func (i installation) connect() (*nats.Conn, jetstream.JetStream, error) {
	conn, js, err := i.dial(nats.Name("idworker"))
	if errors.Is(err, nats.ErrNoServers) {
		err = fmt.Errorf("%w; start one with idworker serve, or name yours with --server", err)
	}
	return conn, js, err
}

// commandTimeout bounds a command that asks JetStream something.
const commandTimeout = 30 * time.Second

// withJetStream connects, and runs use.
func (i installation) withJetStream(ctx context.Context, use func(context.Context, jetstream.JetStream) error) error {
	conn, js, err := i.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	ctx, explain := whenRefused(ctx, conn)
	return explain(use(ctx, js))
}

// maxPingsOut is for how many pings a server may owe the answer. In an overload the
// answers stand in line behind requests; giving up the connection then would lose all
// of those, and help nobody.
const maxPingsOut = 6

// stayConnected are the options of a process that serves: it never gives up, even
// if the server refuses its login for a while.
func stayConnected(name string, log *zap.Logger) []nats.Option {
	flood := &floodgate{}
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(maxPingsOut),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost, reconnecting", zap.String("connection", name), zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			log.Info("NATS connection is back", zap.String("connection", name), zap.String("url", redact(c.ConnectedUrl())))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			if suppressed, ok := flood.pass(); ok { // a caller with a bad inbox causes one for each request
				log.Error("NATS reports an error", zap.String("connection", name), zap.String("subject", subject), zap.Error(err), zap.Int64("others", suppressed))
			}
		}),
	}
}
