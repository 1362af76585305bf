package pages

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/tier"
)

// TestPages types the commands of each page. Translations have the same, see
// [TestTranslations].
func TestPages(t *testing.T) {
	tier.All(t)
	pages := read(t)
	k := newKit(t)
	for _, p := range pages {
		if original(p.Name) != "" {
			continue
		}
		if p.NotRun == "" && slices.ContainsFunc(p.Blocks, runnable) {
			t.Run(p.Name, func(t *testing.T) { follow(t, p, k, false) })
		}
		if p, ok := moved(p); ok {
			t.Run(p.Name+"/moved", func(t *testing.T) { follow(t, p, k, true) })
		}
	}
}

func runnable(b Block) bool { return b.NotRun == "" && b.HasCommands() }

// follow types the commands of a page. The ports that it usually uses may be
// taken.
func follow(t *testing.T, p Document, k kit, taken bool) {
	t.Helper()
	r := &reader{t: t, page: p, kit: k, terminals: map[int]*terminal{}, current: 1, dbs: map[string]*database{}}
	for _, b := range p.Blocks {
		for _, kind := range b.RunIn {
			if runnable(b) && r.dbs[kind] == nil {
				r.dbs[kind] = newDatabase(t, kind) // in the network of the machine
			}
		}
	}
	r.isolated = isolate()
	if !r.isolated {
		needPorts(t, p)
	}
	if taken {
		occupy(t)
	}
	k.fresh(t)
	home := t.TempDir()
	var err error
	if r.env, err = environment(home, k.tools+":"+filepath.Join(k.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	r.home = home
	defer r.leave()
	for _, b := range p.Blocks {
		if runnable(b) {
			r.block(b)
		}
		if t.Failed() {
			return
		}
	}
}

// reader follows a page.
type reader struct {
	t         *testing.T
	page      Document
	kit       kit
	home      string
	env       []string
	isolated  bool
	terminals map[int]*terminal
	current   int
	dbs       map[string]*database // by kind
}

// block types the commands of a block.
func (r *reader) block(b Block) {
	if b.File != "" {
		if err := os.WriteFile(filepath.Join(r.kit.dir, b.File), []byte(strings.Join(b.Lines, "\n")+"\n"), 0o600); err != nil {
			r.t.Errorf("%s:%d: %v", r.page.Name, b.Line, err)
		}
		return
	}
	if b.RunIn != nil {
		for _, kind := range b.RunIn {
			db := r.dbs[kind]
			if err := db.run(r.t, strings.Join(b.Lines, "\n")); err != nil {
				r.t.Errorf("%s:%d: in %s: %v", r.page.Name, b.Line, kind, err)
			}
			db.listen(r.t)
		}
		return
	}
	steps, err := b.Steps()
	if err != nil {
		r.t.Errorf("%s: %v", r.page.Name, err)
		return
	}
	term := r.choose(b, steps[0])
	for _, s := range steps {
		if err := r.step(term, s, b.Vary); err != nil {
			r.t.Errorf("%s:%d: %s\n%v", r.page.Name, s.Line, s.Command, err)
			return
		}
	}
}

// choose is the terminal in which a block is typed.
func (r *reader) choose(b Block, first Step) *terminal {
	if b.Terminal != 0 {
		r.current = b.Terminal
	} else if term := r.terminals[r.current]; term != nil && term.busy != nil && first.Command != "" {
		for r.current = 1; r.terminals[r.current] != nil && r.terminals[r.current].busy != nil; {
			r.current++
		}
	}
	term := r.terminals[r.current]
	if term == nil {
		term = &terminal{state: filepath.Join(r.home, fmt.Sprintf(".terminal%d", r.current)), dir: r.kit.dir, env: r.env, pids: r.isolated}
		r.terminals[r.current] = term
	}
	return term
}

// step types a command, or Ctrl-C.
func (r *reader) step(term *terminal, s Step, vary bool) error {
	if s.Command == "" {
		return r.interrupt(term, s, vary)
	}
	if term.busy != nil {
		return fmt.Errorf("this terminal is busy with %s", term.busy.command)
	}
	for _, kind := range staying {
		if kind.command.MatchString(s.Command) && !s.Fails() {
			return r.stay(term, s, kind.ready, vary)
		}
	}
	if s.Interrupt {
		return errors.New("the page ends it with ^C, and the test does not know that it stays")
	}
	return r.finish(term, s, vary)
}

// stay types a command that stays, and waits until it is ready.
func (r *reader) stay(term *terminal, s Step, ready *regexp.Regexp, vary bool) error {
	c, err := term.start(s.Command, true)
	if err != nil {
		return err
	}
	term.busy = c
	err = c.until(func(printed []string) bool {
		return slices.ContainsFunc(printed, ready.MatchString) && Within(s.Output, printed, vary)
	})
	if err != nil {
		return fmt.Errorf("%w; the page says\n%s\nit printed\n%s", err, text(s.Output), text(c.lines()))
	}
	if s.Interrupt {
		return r.interrupt(term, s, vary)
	}
	return nil
}

// interrupt types Ctrl-C.
func (r *reader) interrupt(term *terminal, s Step, vary bool) error {
	c := term.busy
	if c == nil {
		return errors.New("^C, and nothing runs in this terminal")
	}
	term.busy = nil
	before := len(c.lines())
	if err := c.end(); err != nil {
		return err
	}
	if printed := c.lines()[before:]; !Within(s.After, printed, vary) {
		return fmt.Errorf("after ^C the page says\n%s\nit printed\n%s", text(s.After), text(printed))
	}
	return nil
}

// Exit codes after which a command is typed again, as a reader would: no such
// tag, which may just have been created, and unavailable for now.
var again = []int{3, 4}

// finish types a command that ends.
func (r *reader) finish(term *terminal, s Step, vary bool) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		c, err := term.start(s.Command, false)
		if err != nil {
			return err
		}
		err = c.wait()
		printed := c.lines()
		code := c.cmd.ProcessState.ExitCode()
		if err != nil && !s.Fails() && slices.Contains(again, code) && time.Now().Before(deadline) {
			r.t.Logf("%s:%d: typed again: %s", r.page.Name, s.Line, text(printed))
			continue
		}
		switch {
		case (err != nil) != s.Fails():
			return fmt.Errorf("exit code %d, %w; it printed\n%s", code, err, text(printed))
		case s.Output != nil && !Matches(s.Output, printed, vary):
			return fmt.Errorf("the page says\n%s\nit printed\n%s", text(s.Output), text(printed))
		}
		return nil
	}
}

// leave ends all running commands.
func (r *reader) leave() {
	for n, term := range r.terminals {
		if term.busy == nil {
			continue
		}
		if err := term.busy.end(); err != nil {
			r.t.Error(err)
		}
		if r.t.Failed() {
			r.t.Logf("terminal %d, %s:\n%s", n, term.busy.command, text(term.busy.lines()))
		}
	}
}

func text(lines []string) string { return "\t" + strings.Join(lines, "\n\t") }

var port = regexp.MustCompile(`\b(?:127\.0\.0\.1|localhost):(\d+)\b`)

// needPorts skips a page whose ports are not free.
func needPorts(t *testing.T, p Document) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, p.Name))
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{"127.0.0.1:4222", "127.0.0.1:8080", "127.0.0.1:9090"}
	if strings.Contains(string(data), "$ make cluster\n") {
		for _, port := range localPorts {
			addresses = append(addresses, localAddress(port))
		}
	}
	for _, m := range port.FindAllStringSubmatch(string(data), -1) {
		addresses = append(addresses, "127.0.0.1:"+m[1])
	}
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			message := fmt.Sprintf("%s uses the address %s, which is not free: %v. Run this test as root on Linux, where each page has a network of its own, or stop what listens there", p.Name, address, err)
			if os.Getenv("CI") == "true" {
				t.Fatal(message)
			}
			t.Skip(message)
		}
		_ = l.Close()
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Log("there is no curl, which pages use")
	}
}
