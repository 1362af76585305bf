package natsconn

import (
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Login makes an option the only way to log in: a NATS context may have another.
func Login(as nats.Option) nats.Option {
	return func(o *nats.Options) error {
		o.User, o.Password, o.UserInfo = "", "", nil
		o.Token, o.TokenHandler = "", nil
		o.Nkey, o.UserJWT, o.SignatureCB = "", nil, nil
		return as(o)
	}
}

// Credentials is the option to log in with a credentials file. It looks at the file now,
// while nats.go would only do so when it connects. The file is read again for each
// connection, because it may have been renewed.
func Credentials(file string) nats.Option {
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

// Nkey is the option to log in with the nkey whose seed is in a file.
func Nkey(file string) nats.Option {
	return func(o *nats.Options) error {
		option, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			return err
		}
		return option(o)
	}
}
