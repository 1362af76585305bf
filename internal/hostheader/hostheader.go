// Package hostheader recognizes requests of pages that give a name of their own
// this machine's address (DNS rebinding). For a browser such a page and what
// answers here are of one site, so the page may read the answers. Every HTTP
// server of a process refuses these requests, but one whose callers need a
// token, or that is open to everybody on purpose.
package hostheader

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Refusal is the text of the answer, with status 403, to a request whose Host
// header is not trusted.
const Refusal = "untrusted Host header; allowed are localhost, this machine's name, IP addresses and configured names"

// Trusted reports whether a Host header cannot be that of such a page: it is an
// IP address, a name of this machine, one of names, or empty.
func Trusted(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" || strings.EqualFold(host, "localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	own, err := os.Hostname()
	return err == nil && strings.EqualFold(host, own) ||
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(host, name) })
}
