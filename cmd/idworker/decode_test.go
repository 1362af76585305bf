package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/idworker/idworker/cmd/internal/explain"
)

// TestDecodeFrom: the IDs that there can be of a time, as text and as JSON, and what is refused.
func TestDecodeFrom(t *testing.T) {
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
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
			t.Errorf("%s: exit code %d, %s", tc.args, code, &stderr)
			continue
		}
		line := strings.Fields(strings.Split(stdout.String(), "\n")[2])
		if want := []string{tc.first, tc.last, tc.from, tc.to}; strings.Join(line, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", tc.args, line, want)
		}
		stdout.Reset()
		if code := run(t.Context(), append(args, "--json"), &stdout, &stderr); code != 0 {
			t.Errorf("%s as JSON: exit code %d, %s", tc.args, code, &stderr)
		}
		var found struct{ Layout, Ends, First, Last, From, To string }
		if err := json.Unmarshal(stdout.Bytes(), &found); err != nil || found.First != tc.first || found.Last != tc.last ||
			found.From != tc.from || found.To != tc.to || found.Layout == "" || found.Ends == "" {
			t.Errorf("%s as JSON: %s, %v", tc.args, &stdout, err)
		}
	}
	for args, want := range map[string]string{
		"":                                "want IDs to take apart, or --from",
		"--to " + july:                    "--from",
		"5 --from " + july:                "not both",
		"--from 2024-07-01T00:00Z":        "parsing time",
		"--from 2024-12-31T23:59:59.999Z": "allowed is from 2025-01-01T00:00:00Z",
		"--from 2094-09-07T15:47:35.552Z": "2094-09-07T15:47:35.552Z",
		"--from " + july + " --to 2112-02-09T00:00:00Z": "--to: snowflake: no time of the layout",
		"--from " + july + " --to " + july:              "is not after",
		"--from " + august + " --to " + july:            "is not after",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"decode"}, strings.Fields(args)...), &stdout, &stderr)
		if code != explain.ExitUsage || !strings.Contains(stderr.String(), want) || stdout.Len() > 0 {
			t.Errorf("decode %s: exit code %d, %s%s, want %q", args, code, &stdout, &stderr, want)
		}
	}
}
