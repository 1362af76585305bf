package natsconn

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

const canary = "Canary-3d1c"

// TestServers: the servers of a list, and the list as shown. A password is
// never shown, even in a malformed URL.
func TestServers(t *testing.T) {
	for _, test := range []struct {
		name, list string
		servers    []string // nil if malformed
		shown      string
	}{
		{"plain", "nats://127.0.0.1:4222", []string{"nats://127.0.0.1:4222"}, "nats://127.0.0.1:4222"},
		{"no scheme", "127.0.0.1:4222", []string{"nats://127.0.0.1:4222"}, "127.0.0.1:4222"},
		{"no port", "example.org", []string{"nats://example.org"}, "example.org"},
		{"list with spaces", " tls://a:1 , b:2", []string{"tls://a:1", "nats://b:2"}, "tls://a:1,b:2"},
		{"IPv6", "nats://[::1]:4222,[fe80::1]:1", []string{"nats://[::1]:4222", "nats://[fe80::1]:1"}, "nats://[::1]:4222,[fe80::1]:1"},
		{"websocket", "wss://a:443/path", []string{"wss://a:443/path"}, "wss://a:443/path"},
		{"upper-case scheme", "NATS://u:" + canary + "@a:1", []string{"nats://u:" + canary + "@a:1"}, "nats://xxxxx@a:1"},
		{"login", "nats://u:" + canary + "@a:1", []string{"nats://u:" + canary + "@a:1"}, "nats://xxxxx@a:1"},
		{"token", canary + "@a:1", []string{"nats://" + canary + "@a:1"}, "nats://xxxxx@a:1"},
		{"password alone", "nats://:" + canary + "@a:1", []string{"nats://:" + canary + "@a:1"}, "nats://xxxxx@a:1"},
		{"login in IPv6", "u:" + canary + "@[::1]:1", []string{"nats://u:" + canary + "@[::1]:1"}, "nats://xxxxx@[::1]:1"},
		{"login in the second", "a:1,u:" + canary + "@b:2", []string{"nats://a:1", "nats://u:" + canary + "@b:2"}, "a:1,nats://xxxxx@b:2"},
		{"@ in the password", "nats://u:p@" + canary + "@a:1", []string{"nats://u:p%40" + canary + "@a:1"}, "nats://xxxxx@a:1"},
		{"encoded", "nats://u:%40%2F%23%3F%25" + canary + "@a:1", []string{"nats://u:%40%2F%23%3F%25" + canary + "@a:1"}, "nats://xxxxx@a:1"},

		{"slash in the password", "nats://u:1/" + canary + "@a:1", nil, "(unreadable)"},
		{"hash in the password", "nats://u:1#" + canary + "@a:1", nil, "(unreadable)"},
		{"question mark in the password", "nats://u:1?" + canary + "@a:1", nil, "(unreadable)"},
		{"percent in the password", "nats://u:%zz" + canary + "@a:1", nil, "(unreadable)"},
		{"space in the password", "nats://u:a b" + canary + "@a:1", nil, "(unreadable)"},
		{"comma in the password", "nats://u:" + canary + "/," + canary + "@a:x", nil, "(unreadable),(unreadable)"},
		{"port is no number", "nats://u:" + canary + "@a:port", nil, "(unreadable)"},
		{"open bracket", "a:1,nats://u:" + canary + "@[::1", nil, "a:1,(unreadable)"},
		{"control character", "nats://u:" + canary + "\x7f@a:1", nil, "(unreadable)"},
		{"no host", "nats://u:" + canary + "@:4222", nil, "(unreadable)"},
		{"scheme alone", "nats://", nil, "(unreadable)"},
		{"empty", "", nil, "(unreadable)"},
		{"trailing comma", "a:1,", nil, "a:1,(unreadable)"},
	} {
		var o nats.Options
		err := Servers(test.list)(&o)
		if test.servers == nil && (!errors.Is(err, ErrURL) || strings.Contains(err.Error(), canary)) || test.servers != nil && err != nil {
			t.Errorf("%s: error %v", test.name, err)
		}
		if !slices.Equal(o.Servers, test.servers) {
			t.Errorf("%s: connects to %q, want %q", test.name, o.Servers, test.servers)
		}
		if shown := Redact(test.list); shown != test.shown {
			t.Errorf("%s: shown as %q, want %q", test.name, shown, test.shown)
		}
	}
	err := Servers("a:1, b:2, nats://u:" + canary + "@")(&nats.Options{})
	if err == nil || !strings.Contains(err.Error(), "URL 3 ") {
		t.Errorf("%v, want the position of the malformed URL", err)
	}
}

func TestWithoutURL(t *testing.T) {
	unreadable := &url.Error{Op: "parse", URL: "nats://u:" + canary + "@a:port", Err: errors.New("invalid port")}
	if got := WithoutURL(unreadable); !errors.Is(got, ErrURL) || strings.Contains(got.Error(), canary) {
		t.Errorf("%v, want ErrURL", got)
	}
	if got := WithoutURL(nats.ErrNoServers); !errors.Is(got, nats.ErrNoServers) {
		t.Errorf("%v, want another error unchanged", got)
	}
}
