package main

import (
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
)

// TestCreateAfterARaise: a new tag begins above all IDs that a lost tag of that
// name may have issued, and the output gives the reason. Only a name that was
// never used begins at 1, on purpose.
func TestCreateAfterARaise(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	says := func(line, want string) {
		t.Helper()
		if out := s.must(line); out != want+"\n" {
			t.Errorf("idworker %s: %q, want %q", line, out, want)
		}
	}
	refused := func(line, want string) {
		t.Helper()
		if r := s.at(line); r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("idworker %s: %+v, want %q", line, r, want)
		}
	}
	s.must("tag create old")
	s.must("tag raise --all --by 1000")
	const because = ", because a tag of that name may have issued those below"

	says("tag create order --step 10", "created tag order: step 10, first ID 1001"+because)
	says("tag create order --if-missing", "tag order exists: step 10, next ID 1001")
	says("tag create fresh --if-missing", "created tag fresh: step 1000, first ID 1001"+because)
	refused("tag create higher --first 2000", "a lost tag of that name may have issued IDs above")
	says("tag create higher --first 2000 --unused --yes", "created tag higher: step 1000, first ID 2000")
	refused("tag create lower --first 1000", "create it with --first 1001 or above")

	says("tag create chat.* --template --step 10 --new-per-second 0",
		"created template chat.*: step 10, order trend, at most 1,000,000 tags, unlimited new tags, first ID 1001, because tags may have been lost")
	says("tag create chat.* --template --if-missing", "template chat.* exists: step 10, order trend, at most 1,000,000 tags, unlimited new tags")
	refused("tag create job.* --template --new-per-second 0 --first 5000 --if-missing --yes", "lost tags of that pattern may have issued IDs above")
	says("tag create job.* --template --new-per-second 0 --first 5000 --yes", "created template job.*: step 1000, order trend, at most 1,000,000 tags, unlimited new tags")

	refused("tag create new --unused", "nothing was created; use --yes")
	refused("tag create new --unused --json", "--json needs --yes")
	refused("tag create new --unused --yes --if-missing", "--unused excludes --template and --if-missing")
	refused("tag create new.* --unused --yes --template", "--unused excludes --template and --if-missing")
	says("tag create new --unused --yes", "created tag new: step 1000, first ID 1")
	says("tag create new2 --unused --yes --first 500", "created tag new2: step 1000, first ID 500")
	s.must("tag rm higher --yes")
	refused("tag create higher --unused --yes", "create it with --first 2000 or above")
	refused("tag create order --unused --yes", "tag already exists")
}

// TestCompare: with --if-missing, the error of a tag or template that exists has
// all settings that differ from those given, and the commands that change them,
// if all can be changed.
func TestCompare(t *testing.T) {
	t.Parallel()
	tag := templates.Template{Step: 10, Order: store.Trend, First: 100}
	template := templates.Template{
		Pattern: "day.*", Step: 10, Order: store.Strict, First: 1, MaxTags: 7, NewPerSecond: 5,
		Dates: templates.Dates{Dated: "yyyyMMdd", Ahead: 86400},
	}
	two := 48 * time.Hour
	for _, c := range []struct {
		have  templates.Template
		given tagCreateCmd
		want  string
	}{
		{tag, tagCreateCmd{}, ""},
		{tag, tagCreateCmd{Step: new(int64(10)), First: new(int64(100)), Order: store.Trend}, ""},
		{tag, tagCreateCmd{Step: new(int64(11))}, "step 10, not 11; to change it: idworker tag set 'order' --step 11"},
		{tag, tagCreateCmd{First: new(int64(500))}, "IDs from 100 on, below --first 500; to change it: idworker tag raise order --next 500"},
		{tag, tagCreateCmd{Step: new(int64(11)), First: new(int64(101))}, "step 10, not 11, IDs from 100 on, below --first 101; " +
			"to change it: idworker tag set 'order' --step 11; idworker tag raise order --next 101"},
		{tag, tagCreateCmd{Order: store.Strict}, "order trend, not strict"},
		{tag, tagCreateCmd{Order: store.Strict, Step: new(int64(11))}, "step 10, not 11, order trend, not strict"},
		{templates.Template{Step: 10}, tagCreateCmd{}, "IDs from 0 on, below --first 1; to change it: idworker tag raise order --next 1"},
		{template, tagCreateCmd{}, ""},
		{template, tagCreateCmd{MaxTags: new(int64(7)), NewPerSecond: new(int64(5)), Dated: "yyyyMMdd", First: new(int64(1))}, ""},
		{template, tagCreateCmd{MaxTags: new(int64(0)), NewPerSecond: new(int64(6))},
			"max tags 7, not 0, new per second 5, not 6; to change it: idworker tag set 'day.*' --max-tags 0 --new-per-second 6"},
		{template, tagCreateCmd{First: new(int64(2))}, "IDs from 1 on, below --first 2; to change it: idworker tag raise --all --by N, or create it again"},
		{template, tagCreateCmd{Dated: "yyyyMMdd", Ahead: &two}, "dated yyyyMMdd, used 24 h ahead, not dated yyyyMMdd, used 2 days ahead"},
		{templates.Template{Pattern: "day.*", First: 1}, tagCreateCmd{Dated: "yy"}, "no dates, not dated yy, used 24 h ahead"},
	} {
		kind := "tag order"
		if c.given.Tag = "order"; c.have.Pattern != "" {
			c.given.Tag, c.given.Template, kind = c.have.Pattern, true, "template day.*"
		}
		if c.want != "" {
			c.want = kind + " exists with other settings: " + c.want
		}
		if got := c.given.compare(c.have); got == nil && c.want != "" || got != nil && got.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.given, got, c.want)
		}
	}
}

// TestCreateDated: a template shows its dates wherever it is shown, and keeps
// them.
func TestCreateDated(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for line, want := range map[string]string{
		"tag create day.* --template --dated ddMMyyyy":             "date format",
		"tag create day.* --template --dated yyyyMMdd --ahead 0s":  "0 seconds ahead",
		"tag create day.* --template --dated yyyyMMdd --ahead -1h": "must not be negative",
		"tag create day.* --template --ahead 24h":                  "--ahead needs --dated",
		"tag create day --dated yyyyMMdd":                          "need --template",
	} {
		if r := s.at(line); r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("idworker %s: %+v, want %q", line, r, want)
		}
	}
	const created = "step 1000, order strict, at most 1,000,000 tags, at most 1,000 new tags a second, dated "
	for line, want := range map[string]string{
		"tag create day.* --template --order strict --dated yyyyMMdd":                   "created template day.*: " + created + "yyyyMMdd, used 24 h ahead\n",
		"tag create month.* --template --order strict --dated yyMM --ahead 47h59m59.5s": "created template month.*: " + created + "yyMM, used 2 days ahead\n",
	} {
		if out := s.must(line); out != want {
			t.Errorf("idworker %s: %q, want %q", line, out, want)
		}
	}
	s.must("tag create day.* --template --dated yyyyMMdd --if-missing")
	s.must("tag create day.* --template --if-missing")
	s.must("tag set month.* --step 5")
	found := object(t, s.must("tag ls --json"))
	month := field(found, "templates").([]any)[1]
	for path, want := range map[string]any{"pattern": "month.*", "dated": "yyMM", "ahead": 172800., "step": 5.} {
		if have := field(month, path); have != want {
			t.Errorf("%s is %v, want %v", path, have, want)
		}
	}
	if ls := s.must("tag ls"); !strings.Contains(ls, " dated yyyyMMdd, used 24 h ahead\n") {
		t.Errorf("tag ls:\n%s", ls)
	}
	if ls := s.must("tag export"); !strings.Contains(ls, " 1000000 1000 1 yyMM 172800\n") {
		t.Errorf("tag export:\n%s", ls)
	}
	s.must("tag raise --all --by 1000")
	if found := object(t, s.must("tag export --json")); found["floor"] != "1001" || field(found, "templates.0.first") != "1" {
		t.Errorf("tag export: %v", found)
	}
	if found := object(t, s.must("tag ls --json")); field(found, "templates.0.first") != "1001" {
		t.Errorf("tag ls: %v", found)
	}
	s.must("tag import", writeFile(t, s.must("tag export")))
}
