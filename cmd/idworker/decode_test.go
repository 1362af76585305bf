package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// TestDecodeFrom: the IDs of a period, as text and as JSON, and its errors.
func TestDecodeFrom(t *testing.T) {
	t.Parallel()
	const july, august = "2026-07-01T00:00:00Z", "2026-08-01T00:00:00Z"
	for _, tc := range []struct{ args, first, last, from, to string }{
		{"--from " + july, "197863774617600000", "197863774621794303", "2026-07-01T00:00:00.000Z", "2026-07-01T00:00:00.001Z"},
		{"--from " + july + " --to " + august, "197863774617600000", "209097798451199999", "2026-07-01T00:00:00.000Z", "2026-08-01T00:00:00.000Z"},
		{"--from 2026-07-01T02:00:00+02:00", "197863774617600000", "197863774621794303", "2026-07-01T00:00:00.000Z", "2026-07-01T00:00:00.001Z"},
		{"--layout js --from 2026-07-01T12:00:00.019Z", "154722631712768", "154722631745535", "2026-07-01T12:00:00.010Z", "2026-07-01T12:00:00.020Z"},
		{"--layout js --from 2026-07-01T12:00:00.019Z --to 2026-07-01T12:00:00.0201Z", "154722631712768", "154722631778303", "2026-07-01T12:00:00.010Z", "2026-07-01T12:00:00.030Z"},
		{"--from 2025-01-01T00:00:00Z", "1", "4194303", "2025-01-01T00:00:00.000Z", "2025-01-01T00:00:00.001Z"},
		{"--layout js --from " + july + " --to 2112-02-09T13:44:29.44Z", "154581073920000", "9007199254740991", "2026-07-01T00:00:00.000Z", "2112-02-09T13:44:29.440Z"},
	} {
		args := append([]string{"decode"}, strings.Fields(tc.args)...)
		r := command(t, args...)
		lines := strings.Split(r.stdout, "\n")
		if r.code != 0 || len(lines) < 3 {
			t.Errorf("%s: %+v", tc.args, r)
			continue
		}
		line := strings.Fields(lines[2])
		if want := []string{tc.first, tc.last, tc.from, tc.to}; strings.Join(line, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", tc.args, line, want)
		}
		if r = command(t, append(args, "--json")...); r.code != 0 {
			t.Errorf("%s as JSON: %+v", tc.args, r)
		}
		var found struct{ Layout, Ends, First, Last, From, To string }
		if err := json.Unmarshal([]byte(r.stdout), &found); err != nil || found.First != tc.first || found.Last != tc.last ||
			found.From != tc.from || found.To != tc.to || found.Layout == "" || found.Ends == "" {
			t.Errorf("%s as JSON: %s, %v", tc.args, r.stdout, err)
		}
	}
	for args, want := range map[string]string{
		"":                                "give IDs to decode, or --from",
		"--to " + july:                    "--from",
		"5 --from " + july:                "not both",
		"--from 2024-07-01T00:00Z":        "expected a time such as",
		"--from 2024-12-31T23:59:59.999Z": "allowed is 2025-01-01T00:00:00Z to ",
		"--from 2094-09-07T15:47:35.552Z": "2094-09-07T15:47:35.552Z",
		"--from " + july + " --to 2112-02-09T00:00:00Z": "--to: snowflake: time outside the layout",
		"--from " + july + " --to " + july:              "must be after",
		"--from " + august + " --to " + july:            "must be after",
	} {
		r := command(t, append([]string{"decode"}, strings.Fields(args)...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, want) || r.stdout != "" {
			t.Errorf("decode %s: %+v, want %q", args, r, want)
		}
	}
}

// TestDecodeOfAnotherLayout: only improbable times cause a warning.
func TestDecodeOfAnotherLayout(t *testing.T) {
	t.Parallel()
	ours, err := snowflake.Default().FirstAt(time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for args, warns := range map[string]bool{
		"588567154474401792":                    true, // of Sonyflake
		"1000":                                  true, // of a tag
		"588567154474401792 --layout sonyflake": false,
		ours.String():                           false,
	} {
		text, object := command(t, strings.Fields("decode "+args)...), command(t, strings.Fields("decode --json "+args)...)
		if text.code != exitOK || strings.Contains(text.stdout, "--layout") != warns || strings.Contains(object.stdout, `"warning"`) != warns {
			t.Errorf("%s: %+v, %+v", args, text, object)
		}
	}
}
