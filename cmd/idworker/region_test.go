package main

import (
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// TestSnowflakeRegion: an installation for snowflake IDs only is provisioned,
// serves, and is in order without a register or load stream.
func TestSnowflakeRegion(t *testing.T) {
	t.Parallel()
	s, js := bareSite(t)
	provisioned := s.must("provision --part snowflake")
	s.serve("--role", "snowflake", "--layout", "twitter", "--datacenter", "3")
	s.answered("get --snowflake")
	for _, command := range []string{"doctor --role snowflake --layout twitter", "doctor --role admin --layout twitter", "status"} {
		found := s.at(command).stdout
		for _, wrong := range []string{"IDS_LOAD", "register", "none reports", "not ready"} {
			if strings.Contains(provisioned+found, wrong) {
				t.Errorf("%s reports %q:\n%s", command, wrong, found)
			}
		}
	}
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		if name == "IDS_LOAD" || name == "KV_ids_register" {
			t.Errorf("%s was created", name)
		}
	}
	if err := names.Err(); err != nil {
		t.Error(err)
	}
	natstest.Eventually(t, "the holder is listed", func() bool {
		return strings.Contains(s.must("workers --json"), `"datacenter": 3`)
	})
	for command, want := range map[string]string{
		"serve --role snowflake":                          "name it with --server",
		"serve --role snowflake --demo --server " + s.url: "--demo creates a tag",
	} {
		if r := s.run(strings.Fields(command)...); r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v, want %q", command, r, want)
		}
	}
}
