package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// manCmd prints the manual page.
type manCmd struct{}

// Run prints the page.
func (manCmd) Run(app *kong.Kong, out output) error {
	return writeManual(out, allCommands(app).Model, version)
}

// manualPage writes a manual page in roff. Flush returns the first error.
type manualPage struct{ *bufio.Writer }

func (p manualPage) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

// writeManual writes the manual page of an application. Flags that several
// commands share have sections of their own.
func writeManual(w io.Writer, app *kong.Application, version string) error {
	p := manualPage{bufio.NewWriter(w)}
	p.line(".TH %s 1 \"\" \"%s %s\" \"User Commands\"", strings.ToUpper(app.Name), app.Name, version)
	about, more, _ := strings.Cut(app.Help, "\n")
	p.line(".SH NAME\n%s \\- %s", app.Name, escapeRoff(strings.TrimSuffix(about, ".")))
	p.line(".SH SYNOPSIS\n.B %s\n.I command\n[flags]", app.Name)
	p.line(".SH DESCRIPTION\n%s", escapeRoff(about))
	for paragraph := range strings.SplitSeq(strings.TrimSpace(more), "\n\n") {
		p.line(".PP\n%s", escapeRoff(paragraph))
	}
	p.line(".SH COMMANDS")
	var shared []*kong.Flag
	for _, command := range app.Leaves(true) {
		for _, flag := range p.command(command) {
			if !slices.ContainsFunc(shared, func(f *kong.Flag) bool { return f.Name == flag.Name }) {
				shared = append(shared, flag)
			}
		}
	}
	title := ""
	for _, flag := range shared {
		if groupTitle(flag) != title {
			title = groupTitle(flag)
			p.line(".SH %s", escapeRoff(title))
		}
		p.flag(flag)
	}
	p.line(".SH ENVIRONMENT\n%s", escapeRoff("The variable in parentheses sets a flag; the command line takes precedence. Passwords come from $IDWORKER_PASSWORD, $NATS_PASSWORD or a file."))
	p.line(".SH EXIT STATUS")
	for _, exit := range exits {
		p.line(".TP\n.B %d\n%s", exit.code, escapeRoff(exit.meaning))
	}
	return p.Flush()
}

// command describes a command, and returns its grouped flags.
func (p manualPage) command(command *kong.Node) (grouped []*kong.Flag) {
	p.line(".SS %s", escapeRoff(command.FullPath()))
	p.line("%s", escapeRoff(command.Help))
	for _, arg := range command.Positional {
		p.line(".TP\n.I %s\n%s", escapeRoff(arg.Summary()), escapeRoff(arg.Help))
	}
	var titles []string
	for _, flag := range command.Flags {
		switch {
		case flag.Hidden || flag.Name == "help":
		case flag.Group == nil:
			p.flag(flag)
		default:
			grouped = append(grouped, flag)
			titles = append(titles, groupTitle(flag))
		}
	}
	if titles = slices.Compact(titles); len(titles) > 0 {
		p.line(".PP\nAlso the flags under %s.", escapeRoff(strings.Join(titles, " and ")))
	}
	return grouped
}

// groupTitle returns the heading of a flag's group.
func groupTitle(flag *kong.Flag) string {
	return strings.ToUpper(strings.TrimSuffix(flag.Group.Title, ":"))
}

func (p manualPage) flag(flag *kong.Flag) {
	help := flag.Help
	if flag.HasDefault && flag.PlaceHolder != "" {
		help += " Default: " + flag.Default + "."
	}
	if len(flag.Envs) > 0 {
		help += " ($" + strings.Join(flag.Envs, ", $") + ")"
	}
	p.line(".TP\n.B %s\n%s", escapeRoff(flag.String()), escapeRoff(help))
}

// nonASCII matches characters that roff takes only by number.
var nonASCII = regexp.MustCompile(`[^\x00-\x7f]`)

// escapeRoff escapes text for roff.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	text = nonASCII.ReplaceAllStringFunc(text, func(s string) string {
		r, _ := utf8.DecodeRuneInString(s)
		return fmt.Sprintf(`\[u%04X]`, r)
	})
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text // a line that begins so is a request
	}
	return text
}
