package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idworker/idworker/messages"
)

// opaqueKeys are those of messages/testdata/vectors.json.
const opaqueKeys = "number AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"

// TestOpaqueKeygen: stdout is a key file, alone; each has other keys.
func TestOpaqueKeygen(t *testing.T) {
	t.Parallel()
	one, two := command(t, "opaque", "keygen"), command(t, "opaque", "keygen")
	fingerprint, ok := strings.CutPrefix(strings.TrimSpace(one.stderr), "fingerprint ")
	if one.code != exitOK || !ok || one.stdout == two.stdout || one.stderr == two.stderr {
		t.Errorf("%+v, %+v", one, two)
	}
	sealed := object(t, command(t, "opaque", "seal", "order", "1", "--json", "--keys", writeFile(t, one.stdout)).stdout)
	if sealed["fingerprint"] != fingerprint {
		t.Errorf("%v, want fingerprint %s", sealed, fingerprint)
	}
	asJSON := command(t, "opaque", "keygen", "--json")
	found := object(t, asJSON.stdout)
	file, _ := found["file"].(string)
	sealed = object(t, command(t, "opaque", "seal", "order", "1", "--json", "--keys", writeFile(t, file)).stdout)
	if asJSON.stderr != "" || found["fingerprint"] == nil || sealed["fingerprint"] != found["fingerprint"] {
		t.Errorf("%+v, seals with %v", asJSON, sealed)
	}
}

// TestOpaqueSealAndOpen: both forms, there and back, as text and as JSON.
func TestOpaqueSealAndOpen(t *testing.T) {
	t.Parallel()
	keys := writeFile(t, opaqueKeys)
	for _, c := range []struct{ tag, id, opaque, flags string }{
		{"order", "1", "4399748864569995086", ""},
		{"order", "9223372036854775807", "9204860769944253914", "--bits 63"},
		{"user", "9007199254740991", "241870616318455", "--bits 53"},
		{"order", "1", "ord_164g7p0fvrzk7g6", "--text ord"},
		{"order", "1", "_164g7p0fvrzk7g0", "--text="},
	} {
		flags := append(strings.Fields(c.flags), "--keys", keys)
		for verb, words := range map[string]struct{ from, to string }{"seal": {c.id, c.opaque}, "open": {c.opaque, c.id}} {
			args := append([]string{"opaque", verb, c.tag, words.from}, flags...)
			if r := command(t, args...); r.code != exitOK || r.stdout != words.to+"\n" || r.stderr != "" {
				t.Errorf("%v: %+v, want %s", args, r, words.to)
			}
			found := object(t, command(t, append(args, "--json")...).stdout)
			if found["tag"] != c.tag || found["id"] != c.id || found["opaque"] != c.opaque || found["fingerprint"] != "number:af27d53ede339836 1:af27d53ede339836" {
				t.Errorf("%v: %v", args, found)
			}
		}
	}
}

// TestOpaqueRefusals: bad arguments and files are usage errors, which name the
// fault, but no key. get refuses them before it connects.
func TestOpaqueRefusals(t *testing.T) {
	t.Parallel()
	const canary = "AAECAwQF"
	keys, bad := writeFile(t, opaqueKeys), writeFile(t, opaqueKeys+"1 "+canary+"\n")
	missing := filepath.Join(t.TempDir(), "missing")
	for line, want := range map[string]string{
		"opaque seal order 1":                                            "--keys",
		"opaque seal order 0 --keys " + keys:                             "ID 0, allowed is 1 to 2^63-1",
		"opaque seal order x --keys " + keys:                             `"x" is not a decimal`,
		"opaque seal order 9223372036854775808 --keys " + keys:           "is not a decimal from 1 to 2^63-1",
		"opaque seal order 9007199254740992 --bits 53 --keys " + keys:    "allowed is 1 to 2^53-1",
		"opaque seal order 1 --bits 64 --keys " + keys:                   "64 bits, allowed are 63 and 53",
		"opaque seal order 1 --bits 53 --text x --keys " + keys:          "either --text or --bits",
		"opaque seal order 1 --text X --keys " + keys:                    "allowed are a-z 0-9 _",
		"opaque seal a..b 1 --keys " + keys:                              "malformed tag",
		"opaque seal order 1 --keys " + bad:                              "line 3: 1 has a key already",
		"opaque seal order 1 --keys " + missing:                          "--keys: open " + missing,
		"opaque open order ord_164g7p0fvrzk7g6 --keys " + keys:           "a text needs --text PREFIX",
		"opaque open user ord_164g7p0fvrzk7g6 --text ord --keys " + keys: "wrong check digit",
		"get order --text ord":                                           "--text needs --opaque",
		"get order --ranges --opaque " + keys:                            "either --ranges or --opaque",
		"get --snowflake --opaque " + keys:                               "idworker opaque seal NAME ID",
		"get order --opaque " + bad:                                      "--opaque: " + bad + ": malformed key file: line 3",
		"get order --opaque " + missing:                                  "--opaque: open " + missing,
	} {
		r := command(t, strings.Fields(line)...)
		if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, canary) {
			t.Errorf("%s: %+v, want a usage error with %q", line, r, want)
		}
	}
}

// TestGetOpaque: get prints opaque IDs instead of IDs, and in JSON both.
func TestGetOpaque(t *testing.T) {
	t.Parallel()
	prefix := "ord"
	seal, err := sealFlags{Opaque: writeFile(t, opaqueKeys), Text: &prefix}.sealer("order", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, json := range []bool{false, true} {
		var out strings.Builder
		p := newIDPrinter(output{Writer: &out, JSON: json}, "order", false)
		p.seal = seal
		p.add([]messages.Range{{First: 1, Last: 2}})
		if err := p.end(nil, 2); err != nil {
			t.Fatal(err)
		}
		want := "ord_164g7p0fvrzk7g6\nord_1"
		if json {
			want = `{"tag":"order","ids":["1","2"],"opaque":["ord_164g7p0fvrzk7g6","ord_1`
		}
		if got := strings.NewReplacer("  ", "", ": ", ":").Replace(out.String()); !strings.HasPrefix(strings.ReplaceAll(got, "\n", ""), strings.ReplaceAll(want, "\n", "")) {
			t.Errorf("printed %s", got)
		}
		// Not a single ID is printed that is not sealed.
		failed := errors.New("failed")
		p = newIDPrinter(output{Writer: &out, JSON: json}, "order", false)
		p.seal = func(int64) (string, error) { return "", failed }
		out.Reset()
		p.add([]messages.Range{{First: 1, Last: 2}})
		if err := p.end(nil, 2); !errors.Is(err, failed) || !json && out.String() != "" {
			t.Errorf("%v, printed %q", err, out.String())
		}
	}
}
