package main

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// newModel returns the model of all commands. Tests that run in parallel do not
// share it, because kong writes to its nodes when it lists their flags.
func newModel() *kong.Application {
	return newParser(&cli{}, io.Discard, io.Discard, func(int) {}).Model
}

// TestManualHasAll: the page names every command, argument and flag that is not hidden.
func TestManualHasAll(t *testing.T) {
	t.Parallel()
	model := newModel()
	var page bytes.Buffer
	if err := writeManual(&page, model, version); err != nil {
		t.Fatal(err)
	}
	plain := strings.ReplaceAll(page.String(), `\-`, "-")
	for _, command := range model.Leaves(true) {
		if !strings.Contains(plain, ".SS "+command.FullPath()+"\n") {
			t.Errorf("no section about %s", command.FullPath())
		}
		for _, flag := range command.Flags {
			if flag.Name != "help" && !strings.Contains(plain, ".B "+flag.String()+"\n") {
				t.Errorf("%s: no flag --%s", command.FullPath(), flag.Name)
			}
		}
	}
	for n, line := range strings.Split(page.String(), "\n") {
		if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.HasPrefix(line, ".TH ") && !strings.HasPrefix(line, ".S") && line[1] < 'A' {
			t.Errorf("line %d is taken for a request: %s", n+1, line)
		}
	}
}

// TestCandidates: what a shell is offered, word by word.
func TestCandidates(t *testing.T) {
	t.Parallel()
	model := newModel()
	var commands []string
	for _, c := range model.Children {
		if !c.Hidden {
			commands = append(commands, c.Name)
		}
	}
	for line, want := range map[string]string{
		"t":                        "tag",
		"":                         strings.Join(commands, " "),
		"comp":                     "completion", // complete is hidden
		"tag r":                    "rm raise",
		"nix ":                     strings.Join(commands, " "),
		"get order ":               "",
		"serve --role ":            "all worker loader snowflake",
		"serve --role=w":           "--role=worker",
		"serve --role = w":         "worker",
		"serve --role =":           "all worker loader snowflake",
		"serve --migrate --role l": "loader",
		"serve --listen --rol":     "",
		"serve --listen x --rol":   "--role",
		"serve -- --rol":           "",
		"get --nosuch=":            "",
		"enrich --on":              "--on-loss",
		"enrich run --on-loss ":    "go-on stop",
		"enrich v":                 "verify",
		"help tag im":              "import",
		"rights --role l":          "loader",
		"tag import ":              ":files",
		"get --tlscert ":           ":files",
		"provision --part e":       "enrich",
	} {
		words := strings.Split(line, " ")
		var found []string
		for _, c := range candidates(model, words) {
			found = append(found, c.word)
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestHelp: a command that lacks another one shows which there are; help and --help say the same.
func TestHelp(t *testing.T) {
	t.Parallel()
	say := func(line string) (code int, stdout, stderr string) {
		r := command(t, strings.Fields(line)...)
		return r.code, r.stdout, r.stderr
	}
	for line, want := range map[string]string{"": "idworker serve --demo", "tag": "tag raise"} {
		if code, out, err := say(line); code != exitUsage || out != "" || !strings.Contains(err, want) || !strings.Contains(err, "expected one of") {
			t.Errorf("idworker %s: %d, %q, %q", line, code, out, err)
		}
	}
	for _, line := range []string{"", "tag", "tag raise", "serve", "enrich"} {
		code, out, err := say("help " + line)
		code2, out2, err2 := say(line + " --help")
		if code != exitOK || code2 != code || out != out2 || err+err2 != "" || !strings.Contains(out, "Usage: idworker "+line) {
			t.Errorf("help %s: %d and %d, %q, and\n%s\nunlike\n%s", line, code, code2, err+err2, out, out2)
		}
	}
	if code, _, err := say("help nix"); code != exitUsage || !strings.Contains(err, "nix") {
		t.Errorf("help nix: %d, %s", code, err)
	}
	_, version, _ := say("version")
	if _, flag, _ := say("--version"); version != flag || strings.Count(version, ".") != 2 {
		t.Errorf("version says %q, --version %q", version, flag)
	}
}

// TestGrammar: the parser of a command line has its command alone, with all flags and arguments; that of a line
// that begins otherwise has all commands.
func TestGrammar(t *testing.T) {
	t.Parallel()
	model := newModel()
	parsed := func(words ...string) (leaves []string) {
		for _, command := range newParser(grammar(words), io.Discard, io.Discard, func(int) {}).Model.Leaves(false) {
			leaves = append(leaves, command.FullPath()+" "+summaries(command))
		}
		return leaves
	}
	for _, command := range model.Leaves(false) {
		words := strings.Fields(command.FullPath())[1:]
		want := command.FullPath() + " " + summaries(command)
		if found := parsed(append(words, "more", "--json")...); !slices.Equal(found, []string{want}) {
			t.Errorf("%q has %q, want %q", words, found, want)
		}
	}
	for _, line := range []string{"", "--help", "nix", "--version get"} {
		if found := parsed(strings.Fields(line)...); len(found) != len(model.Leaves(false)) {
			t.Errorf("%q has %d commands, want all", line, len(found))
		}
	}
	for line, only := range map[string]string{"tag": "idworker tag ", "tag nix": "idworker tag ", "--version": "idworker version "} {
		for _, found := range parsed(strings.Fields(line)...) {
			if !strings.HasPrefix(found, only) {
				t.Errorf("%q has %s", line, found)
			}
		}
	}
}

// summaries are the flags and arguments of a command.
func summaries(command *kong.Node) string {
	var all []string
	for _, flag := range slices.Concat(command.AllFlags(false)...) {
		all = append(all, flag.String()+" "+flag.Help)
	}
	for _, argument := range command.Positional {
		all = append(all, argument.Summary()+" "+argument.Help)
	}
	return strings.Join(all, "\n")
}

// TestExitCodesDocumented: docs/command-line.md has the exit codes in the words of the manual page.
func TestExitCodesDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, exit := range exits {
		if line := "| " + strings.TrimSpace(strings.Join([]string{strconv.Itoa(exit.code), exit.meaning}, " | ")) + " |"; !strings.Contains(string(page), line) {
			t.Errorf("docs/command-line.md does not say %s", line)
		}
	}
}
