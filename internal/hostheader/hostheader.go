// Package hostheader recognizes DNS rebinding: requests of pages that give
// their own name this machine's address. To a browser, such a page and this
// server are the same site, so the page may read the answers. Every HTTP server
// of a process refuses these requests, unless its callers need a token or it is
// public on purpose.
package hostheader

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Refusal is the text of the answer, with status 403, to a request with an
// untrusted Host header.
const Refusal = "untrusted Host header; allowed are localhost, this machine's name, IP addresses and configured names"

// Trusted reports whether a Host header cannot come from such a page: it is
// empty, an IP address, a name of this machine, or in names.
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
