package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The exit codes, as cmd/internal/explain/exit.go and docs/command-line.md list them.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitNoTag     = 3
	exitTryLater  = 4
	exitExhausted = 5
)

// TestBadInputCommandLine: each command line fails with its exit code and a readable
// message, prints nothing on stdout, and changes nothing.
func TestBadInputCommandLine(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	createTag(t, s.url, "order", "--step", "10")
	tags := must(t, "tag", "ls", "--server", s.url).stdout
	nobody := "nats://" + freeAddress(t)
	mute, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	create := func(args ...string) []string { return append([]string{"tag", "create", "--server", s.url}, args...) }
	get := func(args ...string) []string { return append([]string{"get", "--server", s.url}, args...) }

	for name, test := range map[string]struct {
		args []string
		code int
		text string // part of stderr
	}{
		"no command":            {nil, exitUsage, "expected one of"},
		"unknown command":       {[]string{"fetch"}, exitUsage, "unexpected argument fetch"},
		"unknown flag":          {get("--turbo", "order"), exitUsage, "--turbo"},
		"step 0":                {create("new", "--step", "0"), exitUsage, "allowed is 1 to 1000000"},
		"negative step":         {create("new", "--step=-5"), exitUsage, "allowed is 1 to 1000000"},
		"step above ceiling":    {create("new", "--step", "1000001"), exitUsage, "allowed is 1 to 1000000"},
		"step no number":        {create("new", "--step", "1e3"), exitUsage, "--step"},
		"step beyond 2^63":      {create("new", "--step", "9223372036854775808"), exitUsage, "--step"},
		"first 0":               {create("new", "--first", "0"), exitUsage, "allowed is 1 or more"},
		"negative first":        {create("new", "--first=-1"), exitUsage, "allowed is 1 or more"},
		"first beyond 2^63":     {create("new", "--first", "9223372036854775808"), exitUsage, "--first"},
		"empty tag":             {create(""), exitUsage, "allowed is 1 to 128"},
		"tag with star":         {create("or*er"), exitUsage, "is a pattern: give --template"},
		"tag with >":            {create("order.>"), exitUsage, "is a pattern: give --template"},
		"tag ends with dot":     {create("order."), exitUsage, "joined by single dots"},
		"tag begins with dot":   {create(".order"), exitUsage, "joined by single dots"},
		"tag with double dot":   {create("a..b"), exitUsage, "joined by single dots"},
		"tag of 129 bytes":      {create(strings.Repeat("a", 129)), exitUsage, "allowed is 1 to 128"},
		"tag in unicode":        {create("größe"), exitUsage, "allowed are"},
		"tag with newline":      {create("or\nder"), exitUsage, "allowed are"},
		"tag exists":            {create("order"), exitFailure, "exists already"},
		"set unknown tag":       {[]string{"tag", "set", "--server", s.url, "nope", "--step", "7"}, exitNoTag, "no such tag"},
		"set step 0":            {[]string{"tag", "set", "--server", s.url, "order", "--step", "0"}, exitUsage, "allowed is 1 to 1000000"},
		"get unknown tag":       {get("nope"), exitNoTag, "idworker tag create nope"},
		"get malformed tag":     {get("a..b"), exitUsage, "joined by single dots"},
		"get 0":                 {get("order", "0"), exitUsage, "from 1 on"},
		"get -1":                {get("--", "order", "-1"), exitUsage, "from 1 on"},
		"get 1e3":               {get("order", "1e3"), exitUsage, "1e3"},
		"get -1, no dashes":     {get("order", "-1"), exitUsage, "-1: no number here may be negative; counts, steps and IDs go from 1 on"},
		"get, several tags":     {get("order", "5", "invoice"), exitUsage, "unexpected argument invoice: want one tag, and how many"},
		"listen beside server":  {[]string{"serve", "--server", s.url, "--listen", "127.0.0.1:1"}, exitUsage, "--listen is of the embedded NATS server, but --server names another one"},
		"data beside server":    {[]string{"serve", "--server", s.url, "--data", "x"}, exitUsage, "--data is of the embedded NATS server, but --server names another one"},
		"create, is different":  {create("order", "--if-missing", "--step", "11"), exitFailure, "tag order exists with other settings: step 10, not 11; to change it: idworker tag set 'order' --step 11"},
		"create, begins higher": {create("order", "--if-missing", "--first", "500"), exitFailure, "below --first 500"},
		"another's HTTP port":   {[]string{"serve", "--http", strings.TrimPrefix(s.url, "nats://")}, exitFailure, "choose another HOST:PORT, or stop what listens there"},
		"get, no NATS there":    {[]string{"get", "--server", mute.Addr().String(), "order"}, exitTryLater, "does not speak NATS"},
		"serve, no NATS there":  {[]string{"serve", "--listen", mute.Addr().String()}, exitFailure, "what listens there is no NATS server"},
		"another's port":        {[]string{"serve", "--listen", strings.TrimPrefix(s.url, "nats://")}, exitFailure, "another idworker serves there"},
		"tag in unicode, shown": {create("Straße"), exitUsage, "'ß' at byte 4"},
		"pattern, once":         {create("a b.*", "--template"), exitUsage, `malformed pattern "a b.*": ' ' at byte 1`},
		"template, no pattern":  {create("foo", "--template"), exitUsage, "or leave out --template"},
		"unknown order":         {[]string{"tag", "set", "--server", s.url, "order", "--order", "strikt"}, exitUsage, `unknown order "strikt", allowed are trend and strict`},
		"ended, not strict":     {create("new", "--ended", "X"), exitUsage, "--ended goes with --order strict"},
		"ended, bogus":          {create("new", "--order", "strict", "--ended", "bogus"), exitUsage, "no process bogus is known"},
		"tag exists, change it": {create("order"), exitFailure, "tag exists already: order; change it with: idworker tag set order --step N"},
		"no match":              {[]string{"tag", "ls", "--server", s.url, "nix"}, exitNoTag, "no tag or template matches nix"},
		"rm unknown tag":        {[]string{"tag", "rm", "--server", s.url, "nosuch"}, exitNoTag, "idworker: no such tag: nosuch\n"},
		"rm, nobody types":      {[]string{"tag", "rm", "--server", s.url, "order"}, exitUsage, "--yes"},
		"get of no template":    {get("day.2"), exitNoTag, "create that again"},
		"get, bad prefix":       {get("--prefix", "a.b", "order"), exitUsage, "bad prefix"},
		"get, other prefix":     {get("--prefix", "nobody", "order"), exitTryLater, "idworker serve"},
		"get, nobody for long":  {get("--prefix", "nobody", "--timeout", "1h", "order"), exitTryLater, "idworker serve"},
		"get, little time":      {get("--prefix", "nobody", "--timeout", "100ms", "--snowflake"), exitTryLater, "idworker serve"},
		"get, nobody there":     {[]string{"get", "--server", nobody, "order"}, exitTryLater, nobody},
		"tag ls, nobody there":  {[]string{"tag", "ls", "--server", nobody}, exitTryLater, nobody},
		"tag ls, never served":  {[]string{"tag", "ls", "--server", s.url, "--prefix", "nobody"}, exitFailure, "idworker serve"},
		"serve, no port":        {[]string{"serve", "--listen", "127.0.0.1"}, exitUsage, "HOST:PORT"},
		"serve, port 0":         {[]string{"serve", "--listen", "127.0.0.1:0"}, exitUsage, "1 to 65535"},
		"serve, port too large": {[]string{"serve", "--listen", "127.0.0.1:65536"}, exitUsage, "1 to 65535"},
		"serve, unknown role":   {[]string{"serve", "--role", "boss"}, exitUsage, "all"},
		"serve, wait too long":  {[]string{"serve", "--wait", "1h"}, exitUsage, "10ms to 1m"},
		"serve, batch 0":        {[]string{"serve", "--max-batch", "0"}, exitUsage, "allowed is 1"},
		"serve, batch > step":   {[]string{"serve", "--max-batch", "11", "--max-step", "10"}, exitUsage, "largest step, 10"},
		"serve, step too large": {[]string{"serve", "--max-step", "9223372036854775807"}, exitUsage, "allowed is 1 to"},
		"serve, 6 replicas":     {[]string{"serve", "--replicas", "6"}, exitUsage, "allowed is 1 to 5"},
		"serve, bad log level":  {[]string{"serve", "--log-level", "loud"}, exitUsage, "log-level"},
	} {
		t.Run(name, func(t *testing.T) {
			r := settings{dir: t.TempDir(), env: []string{"IDWORKER_LISTEN=" + freeAddress(t)}}.run(t, test.args...)
			if r.code != test.code {
				t.Errorf("exit code %d, want %d", r.code, test.code)
			}
			if !strings.Contains(r.stderr, test.text) || !strings.Contains(r.stderr, "idworker: ") {
				t.Errorf("stderr %q, want it to say %q", r.stderr, test.text)
			}
			if strings.Contains(r.stderr, "panic") || strings.Contains(r.stderr, "goroutine ") {
				t.Errorf("stderr is no text for people: %s", r.stderr)
			}
		})
	}
	if now := must(t, "tag", "ls", "--server", s.url).stdout; now != tags {
		t.Errorf("tags are\n%swere\n%s", now, tags)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	r := run(t, "--version")
	if fields := strings.Split(strings.TrimSpace(r.stdout), "."); r.code != exitOK || len(fields) != 3 || r.stderr != "" {
		t.Errorf("--version: %+v, want exit code 0 and a version like 1.2.3", r)
	}
}

// TestEnvironment uses environment variables in place of flags.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	url := "nats://" + address
	data := filepath.Join(t.TempDir(), "some", "folder")
	env := settings{env: []string{
		"IDWORKER_LISTEN=" + address,
		"IDWORKER_DATA=" + data,
		"IDWORKER_PREFIX=shop",
		"IDWORKER_MAX_BATCH=5",
		"IDWORKER_MAX_STEP=1000",
		"IDWORKER_LOG_LEVEL=debug",
		"IDWORKER_DEMO=false",
	}}
	p := env.launch(t, "serve")
	p.serving()
	if _, err := os.Stat(data); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.stderr.String(), "\tdebug\t") {
		t.Error("IDWORKER_LOG_LEVEL=debug shows no details")
	}
	client := settings{env: []string{"NATS_URL=" + url, "IDWORKER_PREFIX=shop", "IDWORKER_STEP=7"}}
	if r := client.run(t, "tag", "create", "order"); r.code != exitOK || !strings.Contains(r.stdout, "step 7") {
		t.Errorf("tag create: %+v, want step 7", r)
	}
	if r := client.run(t, "get", "order", "5"); r.code != exitOK || len(ids(t, r)) != 5 {
		t.Errorf("get 5: %+v", r)
	}
	if r := client.run(t, "get", "order", "6", "--ranges"); r.code != exitOK || len(r.lines()) != 2 {
		t.Errorf("get 6 with IDWORKER_MAX_BATCH=5: %+v, want two answers", r)
	}
	client.env = append(client.env, "IDWORKER_SERVER=nats://"+freeAddress(t))
	if r := client.run(t, "get", "order"); r.code != exitTryLater {
		t.Errorf("IDWORKER_SERVER does not go before NATS_URL: %+v", r)
	}
	if r := client.run(t, "get", "--server", url, "order"); r.code != exitOK {
		t.Errorf("--server does not go before IDWORKER_SERVER: %+v", r)
	}
	bad := settings{env: []string{"IDWORKER_WAIT=soon"}}
	if r := bad.run(t, "serve"); r.code != exitUsage {
		t.Errorf("IDWORKER_WAIT=soon: %+v", r)
	}
	p.stop(syscall.SIGTERM)
}

// TestDataFolderRemoved: serve does not go on without its folder, for somebody else could serve from the same place.
func TestDataFolderRemoved(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, data)
	createTag(t, s.url, "order")
	must(t, "get", "--server", s.url, "order")
	if err := os.Rename(data, data+".moved"); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(); code != exitFailure || !strings.Contains(s.stderr.String(), "removed or replaced while it was in use: "+data) {
		t.Errorf("exit code %d, want %d and a reason:\n%s", code, exitFailure, s.stderr.Tail())
	}
}

// TestDataFolderUnusable: serve says what is wrong with the folder or the port, and exits.
func TestDataFolderUnusable(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := startServer(t, data)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	lockIsFolder, streamsIsFile := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(lockIsFolder, "idworker.lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(streamsIsFile, "jetstream"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly := t.TempDir()
	if err := os.Chmod(readOnly, 0o500); err != nil {
		t.Fatal(err)
	}
	taken := strings.TrimPrefix(s.url, "nats://")
	for name, test := range map[string]struct{ listen, data, text string }{
		"port taken":         {taken, t.TempDir(), taken},
		"used by another":    {"", data, "another process uses"},
		"a file":             {"", file, "data folder cannot be used"},
		"below a file":       {"", filepath.Join(file, "data"), "data folder cannot be used"},
		"lock is a folder":   {"", lockIsFolder, "data folder cannot be used"},
		"jetstream a file":   {"", streamsIsFile, "not a directory"},
		"not to be written":  {"", readOnly, "data folder cannot be used"},
		"below such a thing": {"", filepath.Join(readOnly, "data"), "data folder cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() == 0 && strings.HasPrefix(test.data, readOnly) {
				t.Skip("root may write everywhere")
			}
			if test.listen == "" {
				test.listen = freeAddress(t)
			}
			r := run(t, "serve", "--listen", test.listen, "--data", test.data)
			if r.code != exitFailure || !strings.Contains(r.stderr, test.text) {
				t.Errorf("exit code %d, stderr %s; want %d and %q", r.code, r.stderr, exitFailure, test.text)
			}
		})
	}
	must(t, "tag", "ls", "--server", s.url) // the one that has the folder and the port lives on
}
