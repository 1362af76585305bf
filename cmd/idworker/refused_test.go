package main

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestBadInput: each command line fails with its exit code and a readable
// message, prints nothing on stdout, and changes nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("tag create order --step 10")
	s.answered("get order")
	// Settings of the tags; next IDs depend on load events of the workers.
	settings := func() (all string) {
		for line := range strings.Lines(s.must("tag ls")) {
			f := strings.Fields(line)
			all += strings.Join([]string{f[0], f[1], f[3]}, " ") + "\n"
		}
		return all
	}
	tags := settings()
	unused := "nats://" + freeport.Address(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	taken, free := mute.Addr().String(), freeport.Address(t)
	exposed := strings.Replace(free, "127.0.0.1", "0.0.0.0", 1)
	const secret = "a-Secret-that-is-not-shown"
	tokens := writeFile(t, secret+" order.*.*x\n")

	at := func(command string) func(...string) []string {
		return func(args ...string) []string {
			return append(append(strings.Fields(command), "--server", s.url), args...)
		}
	}
	create, get, set, rm, bench, serve := at("tag create"), at("get"), at("tag set"), at("tag rm"), at("bench"), at("serve")
	embedded := func(args ...string) []string {
		return append([]string{"serve", "--data", filepath.Join(t.TempDir(), "data")}, args...)
	}
	const usage, failure, noTag, tryLater = exitUsage, exitFailure, exitNoTag, exitTryLater

	slots := make(chan struct{}, 8) // most commands wait
	var all sync.WaitGroup
	for name, test := range map[string]struct {
		args []string
		code int
		text string // part of stderr
	}{
		"no command":            {nil, usage, "expected one of"},
		"unknown command":       {[]string{"fetch"}, usage, "unexpected argument fetch"},
		"unknown flag":          {get("--turbo", "order"), usage, "--turbo"},
		"step 0":                {create("new", "--step", "0"), usage, "allowed is 1 to 1000000"},
		"step above ceiling":    {create("new", "--step", "1000001"), usage, "allowed is 1 to 1000000"},
		"step no number":        {create("new", "--step", "1e3"), usage, "--step"},
		"past the end":          {create("new", "--first", "9223372036854775807", "--step", "1"), usage, "leaves no room"},
		"tag with star":         {create("or*er"), usage, "is a pattern; add --template"},
		"tag in unicode":        {create("Straße"), usage, "'ß' at byte 4"},
		"tag exists":            {create("order"), failure, "tag already exists: order; change it with: idworker tag set order --step N"},
		"create, begins higher": {create("order", "--if-missing", "--first", "500"), failure, "below --first 500"},
		"pattern, once":         {create("a b.*", "--template"), usage, `malformed pattern "a b.*": ' ' at byte 1`},
		"template, no pattern":  {create("foo", "--template"), usage, "or omit --template"},
		"set unknown tag":       {set("nope", "--step", "7"), noTag, "no such tag"},
		"set step 0":            {set("order", "--step", "0"), usage, "allowed is 1 to 1000000"},
		"unknown order":         {create("new", "--order", "strikt"), usage, `order "strikt", allowed are trend and strict`},
		"set, nothing":          {set("order"), usage, "give --step"},
		"set order":             {set("order", "--order", "strict"), usage, "unknown flag --order"},
		"rm unknown tag":        {rm("nosuch", "--yes"), noTag, "idworker: no such tag: nosuch\n"},
		"rm, without input":     {rm("order"), usage, "nothing was removed"},
		"no match":              {at("tag ls")("nix"), noTag, "no tag or template matches nix"},
		"get unknown tag":       {get("nope"), noTag, "idworker tag create nope"},
		"get -1":                {get("order", "-1"), usage, "-1: must not be negative; counts, steps and IDs start at 1"},
		"import, no room":       {at("tag import")(writeFile(t, "full.* 2 trend 0 0 9223372036854775806\n")), usage, "leaves no room for a segment of 2"},
		"get, several tags":     {get("order", "5", "invoice"), usage, "unexpected argument invoice; give one tag and a count"},
		"number, no sequence":   {get("--number", "INV-{yyyy}", "order"), usage, `bad format of numbers "INV-{yyyy}": {seq} comes 0 times, allowed is once`},
		"number, local zone":    {get("--number", "{seq}", "--zone", "Local", "order"), usage, "bad time zone: it must be named"},
		"number, other zone":    {get("--number", "{seq}", "--zone", "Mars/Base", "order"), usage, "--zone: unknown time zone Mars/Base; give a name such as Asia/Shanghai"},
		"number, bad date":      {get("--number", "{yy}{seq}", "--at", "2027-02-29", "order"), usage, `--at: bad date: "2027-02-29", allowed is a day`},
		"number, no format":     {get("--zone", "UTC", "order"), usage, "--zone and --at need --number"},
		"number, snowflake":     {get("--number", "{seq}", "--snowflake"), usage, "--number excludes"},
		"number, ranges":        {get("--number", "{seq}", "--ranges", "order"), usage, "--number excludes"},
		"number, no tag":        {get("--number", "{seq}", "nope"), noTag, "idworker tag create nope --order strict"},
		"get, bad prefix":       {get("--prefix", "a.b", "order"), usage, "bad prefix"},
		"get, other prefix":     {get("--prefix", "unused", "order"), tryLater, "idworker serve"},
		"get, long timeout":     {get("--prefix", "unused", "--timeout", "1h", "order"), tryLater, "idworker serve"},
		"get, no server":        {[]string{"get", "--server", unused, "order"}, tryLater, unused},
		"get, no NATS there":    {[]string{"get", "--server", taken, "order"}, tryLater, "no NATS server"},
		"tag ls, no server":     {[]string{"tag", "ls", "--server", unused}, tryLater, unused},
		"tag ls, never served":  {at("tag ls")("--prefix", "unused"), failure, "idworker serve"},
		"raise what":            {at("tag raise")("--by", "1"), usage, "give either a tag or --all"},
		"raise to what":         {at("tag raise")("order"), usage, "give either --next ID or --by N"},
		"raise all to":          {at("tag raise")("--all", "--next", "5"), usage, "--all needs no number"},
		"raise all too far":     {at("tag raise")("--all", "--by", "9223372036854775807"), usage, "too large for all tags"},
		"raise too far":         {at("tag raise")("order", "--by", "9223372036854775807"), failure, "exhausted"},
		"raise to the end":      {at("tag raise")("order", "--next", "9223372036854775807"), usage, "leaves no room"},
		"raise unknown tag":     {at("tag raise")("nosuch", "--by", "1"), noTag, "no such tag: nosuch"},
		"import, twice":         {at("tag import")(writeFile(t, "other 10 1\nother 10 2\n")), usage, "is listed twice"},
		"import, cut off":       {at("tag import")(writeFile(t, "other 10 100")), usage, "truncated"},
		"import, other order":   {at("tag import")(writeFile(t, "other 10 1\norder 10 1 strict\n")), usage, "order is trend, not strict; give --order trend"},
		"import, nothing":       {at("tag import")(writeFile(t, "# nothing\n")), usage, "did the export fail?"},
		"status, no tags":       {at("status")("--tags=-1"), usage, "--tags"},
		"status, sort":          {at("status")("--sort=newest"), usage, "--sort"},
		"doctor, no caller":     {at("doctor")("--tag", "order"), usage, "--tag"},

		"bench of nothing":   {bench(), usage, "give a tag, or --snowflake"},
		"bench, batch":       {bench("order", "--batch", "10001"), usage, "allowed is 1 to 10000"},
		"bench, callers":     {bench("order", "--callers", "0"), usage, "--callers 0, allowed is"},
		"bench, many":        {bench("order", "--batch", "1000000001"), usage, "--batch 1000000001, allowed is"},
		"bench, rate":        {bench("order", "--rate=-1"), usage, "--rate -1, allowed is"},
		"bench, no patience": {bench("order", "--timeout", "0s"), usage, "--timeout 0s, allowed is"},
		"bench, history":     {bench("order", "--history", writeFile(t, "")), failure, "choose another file"},
		"bench, tag":         {bench("order", "a..b"), usage, "joined by single dots"},
		"bench, no time":     {bench("order", "--duration", "0s"), usage, "--duration 0s, allowed is"},
		"bench, unknown tag": {bench("nosuch"), noTag, "idworker tag create nosuch;"},
		"bench, no worker":   {bench("order", "--prefix", "other"), tryLater, "start one with"},

		"listen beside server":  {serve("--listen", "127.0.0.1:1"), usage, "--listen is for the embedded NATS server, but --server names another"},
		"data beside server":    {serve("--data", "x"), usage, "--data is for the embedded NATS server, but --server names another"},
		"serve, no NATS there":  {embedded("--listen", taken), failure, "another program listens there"},
		"serve, no port":        {embedded("--listen", "127.0.0.1"), usage, "HOST:PORT"},
		"serve, unknown role":   {serve("--role", "boss"), usage, "all"},
		"serve, wait too long":  {serve("--wait", "1h"), usage, "10ms to 1m"},
		"serve, batch 0":        {serve("--max-batch", "0"), usage, "allowed is 1"},
		"serve, batch > step":   {serve("--max-batch", "11", "--max-step", "10"), usage, "largest step, 10"},
		"serve, step too large": {serve("--max-step", "9223372036854775807"), usage, "allowed is 1 to"},
		"serve, 6 replicas":     {serve("--replicas", "6"), usage, "allowed is 1 to 5"},
		"serve, bad log level":  {serve("--log-level", "loud"), usage, "log-level"},
		"serve, epoch":          {serve("--epoch", "2025"), usage, "expected a time such as 2025-01-01T00:00:00Z"},
		"serve, future epoch":   {embedded("--epoch=2252-01-01T00:00:00Z"), usage, "set the clock right, or choose an --epoch that is past"},
		"serve, ahead":          {serve("--max-ahead", "-1s"), usage, "-1s: durations must not be negative"},
		"serve, ahead of zero":  {embedded("--max-ahead=-1s"), usage, "--max-ahead and --max-clock-skew must not be negative"},
		"provision, lease":      {at("provision")("--lease-ttl", "14s"), usage, "allowed is 15s to 1h0m0s"},
		"HTTP, no port":         {serve("--http", "127.0.0.1"), usage, "--http \"127.0.0.1\": expected HOST:PORT"},
		"HTTP, taken":           {serve("--http", taken), failure, "choose another HOST:PORT, or stop that program"},
		"HTTP, too many tags":   {serve("--metrics-tags", "100001"), usage, "allowed is 0 to 100000"},

		"API, no port":     {serve("--api", "127.0.0.1"), usage, "--api \"127.0.0.1\": expected HOST:PORT"},
		"API, taken":       {serve("--api", taken), failure, "address already in use"},
		"API, exposed":     {serve("--api", exposed), usage, "other machines can reach " + exposed + "; without TLS, others can read the traffic; without tokens, anyone gets IDs; give it --api-tls-cert, --api-tls-key and --api-tokens"},
		"API of a loader":  {serve("--api", free, "--role", "loader"), usage, "--api: a loader does not answer requests"},
		"API, only tokens": {serve("--api-tokens", tokens), usage, "need --api"},
		"API, bad tokens":  {serve("--api", free, "--api-tokens", tokens), usage, "line 1: malformed pattern"},
	} {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r := s.run(test.args...)
			for began := time.Now(); r.code == tryLater && test.code != tryLater && time.Since(began) < natstest.Patience; {
				r = s.run(test.args...)
			}
			switch {
			// Prompts first.
			case r.code != test.code || r.stdout != "" && name != "rm, without input":
				t.Errorf("%s: exit code %d, want %d; stdout %q, stderr %q", name, r.code, test.code, r.stdout, r.stderr)
			case !strings.Contains(r.stderr, test.text) || !strings.Contains(r.stderr, "idworker: ") || strings.Contains(r.stderr, secret):
				t.Errorf("%s: stderr %q, want it to say %q", name, r.stderr, test.text)
			}
		})
	}
	all.Wait()
	if now := settings(); now != tags {
		t.Errorf("tags are\n%swere\n%s", now, tags)
	}
}
