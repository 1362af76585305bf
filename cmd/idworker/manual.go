package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/idworker/idworker/cmd/internal/explain"
)

// manualPage writes a manual page. Flush returns what failed.
type manualPage struct{ *bufio.Writer }

// writeManual writes the manual page of an application in the language of man.
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
	shared := new(flagGroups)
	for _, command := range app.Leaves(true) {
		p.command(command, shared)
	}
	for _, g := range shared.list {
		p.line(".SH %s", escapeRoff(strings.ToUpper(strings.TrimSuffix(g.Title, ":"))))
		p.flags(shared.flags[g.Key])
	}
	p.rest()
	return p.Flush()
}

// flagGroups are the groups of flags that several commands share, each once.
type flagGroups struct {
	list  []*kong.Group
	flags map[string][]*kong.Flag
}

// add adds the flags of a group, as the first command has them that has it.
func (g *flagGroups) add(group *kong.Group, flags []*kong.Flag) {
	if g.flags == nil {
		g.flags = make(map[string][]*kong.Flag)
	}
	if _, known := g.flags[group.Key]; !known {
		g.list = append(g.list, group)
		g.flags[group.Key] = flags
	}
}

func (p manualPage) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

// command describes one command, and leaves the groups of flags for later.
func (p manualPage) command(command *kong.Node, shared *flagGroups) {
	p.line(".SS %s", escapeRoff(command.FullPath()))
	p.line("%s", escapeRoff(command.Help))
	for _, arg := range command.Positional {
		p.line(".TP\n.I %s\n%s", escapeRoff(arg.Summary()), escapeRoff(arg.Help))
	}
	own, grouped := splitFlags(command)
	p.flags(own)
	var titles []string
	for _, g := range grouped.list {
		shared.add(g, grouped.flags[g.Key])
		titles = append(titles, strings.ToUpper(strings.TrimSuffix(g.Title, ":")))
	}
	if len(titles) > 0 {
		p.line(".PP\nAnd the flags under %s.", escapeRoff(strings.Join(titles, " and ")))
	}
}

// splitFlags separates the flags of a command from those of groups.
func splitFlags(command *kong.Node) (own []*kong.Flag, grouped flagGroups) {
	byGroup := make(map[string][]*kong.Flag)
	var order []*kong.Group
	for _, flag := range command.Flags {
		switch {
		case flag.Hidden || flag.Name == "help":
		case flag.Group == nil:
			own = append(own, flag)
		default:
			if byGroup[flag.Group.Key] == nil {
				order = append(order, flag.Group)
			}
			byGroup[flag.Group.Key] = append(byGroup[flag.Group.Key], flag)
		}
	}
	for _, g := range order {
		grouped.add(g, byGroup[g.Key])
	}
	return own, grouped
}

func (p manualPage) flags(flags []*kong.Flag) {
	for _, flag := range flags {
		help := flag.Help
		if flag.HasDefault && flag.PlaceHolder != "" {
			help += " By default " + flag.Default + "."
		}
		if len(flag.Envs) > 0 {
			help += " ($" + strings.Join(flag.Envs, ", $") + ")"
		}
		p.line(".TP\n.B %s\n%s", escapeRoff(flag.String()), escapeRoff(help))
	}
}

// rest is what is said once for all commands.
func (p manualPage) rest() {
	p.line(".SH ENVIRONMENT\n%s", escapeRoff("The variable behind a flag sets it. A flag on the command line takes precedence. Passwords are in $IDWORKER_PASSWORD or $NATS_PASSWORD, or in a file."))
	p.line(".SH EXIT STATUS")
	for _, exit := range explain.Exits {
		p.line(".TP\n.B %d\n%s", exit.Code, escapeRoff(exit.Meaning))
	}
}

// nonASCII are the characters that roff knows by number only.
var nonASCII = regexp.MustCompile(`[^\x00-\x7f]`)

// escapeRoff writes text so that man shows it as it is.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	text = nonASCII.ReplaceAllStringFunc(text, func(s string) string {
		r, _ := utf8.DecodeRuneInString(s)
		return fmt.Sprintf(`\[u%04X]`, r)
	})
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text // else it is a request
	}
	return text
}
