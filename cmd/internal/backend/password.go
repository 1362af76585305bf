package backend

import (
	"net/url"
	"strings"
)

// HasPassword reports whether a DSN holds a password, or may do so: one that cannot be read counts, if it has a
// login.
func HasPassword(dsn string) bool {
	scheme, rest, ok := strings.Cut(dsn, "://")
	switch {
	case !ok:
		return false
	case scheme != "mysql":
		return hasPasswordURL(dsn)
	}
	// user:password@net(address)/database?settings, and the password may hold any of these signs
	if end := strings.LastIndexByte(rest, '/'); end >= 0 {
		rest = rest[:end]
	}
	login := rest[:max(0, strings.LastIndexByte(rest, '@'))]
	_, password, _ := strings.Cut(login, ":")
	return password != ""
}

// hasPasswordURL is for a DSN that is a URL, in which settings may hold passwords too.
func hasPasswordURL(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil {
		return strings.Contains(dsn, "@") || strings.Contains(dsn, "password=")
	}
	if u.User != nil {
		if password, _ := u.User.Password(); password != "" {
			return true
		}
	}
	// A password that was not percent-encoded ends what is read as the host.
	return u.Query().Has("password") || u.Query().Has("sslpassword") || strings.Contains(u.Path, "@") || strings.Contains(u.Fragment, "@")
}
