// Package manual makes the manual page from the model of the command line, so that the two
// cannot differ.
package manual

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

// page writes a manual page. Flush returns what failed.
type page struct{ *bufio.Writer }

// Write writes the manual page of an application in the language of man.
func Write(w io.Writer, app *kong.Application, version string) error {
	p := page{bufio.NewWriter(w)}
	p.line(".TH %s 1 \"\" \"%s %s\" \"User Commands\"", strings.ToUpper(app.Name), app.Name, version)
	about, more, _ := strings.Cut(app.Help, "\n")
	p.line(".SH NAME\n%s \\- %s", app.Name, escape(strings.TrimSuffix(about, ".")))
	p.line(".SH SYNOPSIS\n.B %s\n.I command\n[flags]", app.Name)
	p.line(".SH DESCRIPTION\n%s", escape(about))
	for paragraph := range strings.SplitSeq(strings.TrimSpace(more), "\n\n") {
		p.line(".PP\n%s", escape(paragraph))
	}
	p.line(".SH COMMANDS")
	shared := new(groups)
	for _, command := range app.Leaves(true) {
		p.command(command, shared)
	}
	for _, g := range shared.list {
		p.line(".SH %s", escape(strings.ToUpper(strings.TrimSuffix(g.Title, ":"))))
		p.flags(shared.flags[g.Key])
	}
	p.rest()
	return p.Flush()
}

// groups are the groups of flags that several commands share, each once.
type groups struct {
	list  []*kong.Group
	flags map[string][]*kong.Flag
}

// add adds the flags of a group, as the first command has them that has it.
func (g *groups) add(group *kong.Group, flags []*kong.Flag) {
	if g.flags == nil {
		g.flags = make(map[string][]*kong.Flag)
	}
	if _, known := g.flags[group.Key]; !known {
		g.list = append(g.list, group)
		g.flags[group.Key] = flags
	}
}

func (p page) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

// command describes one command, and leaves the groups of flags for later.
func (p page) command(command *kong.Node, shared *groups) {
	p.line(".SS %s", escape(command.FullPath()))
	p.line("%s", escape(command.Help))
	for _, arg := range command.Positional {
		p.line(".TP\n.I %s\n%s", escape(arg.Summary()), escape(arg.Help))
	}
	own, grouped := split(command)
	p.flags(own)
	var titles []string
	for _, g := range grouped.list {
		shared.add(g, grouped.flags[g.Key])
		titles = append(titles, strings.ToUpper(strings.TrimSuffix(g.Title, ":")))
	}
	if len(titles) > 0 {
		p.line(".PP\nAnd the flags under %s.", escape(strings.Join(titles, " and ")))
	}
}

// split separates the flags of a command from those of groups.
func split(command *kong.Node) (own []*kong.Flag, grouped groups) {
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

func (p page) flags(flags []*kong.Flag) {
	for _, flag := range flags {
		help := flag.Help
		if flag.HasDefault && flag.PlaceHolder != "" {
			help += " By default " + flag.Default + "."
		}
		if len(flag.Envs) > 0 {
			help += " ($" + strings.Join(flag.Envs, ", $") + ")"
		}
		p.line(".TP\n.B %s\n%s", escape(flag.String()), escape(help))
	}
}

// rest is what is said once for all commands.
func (p page) rest() {
	p.line(".SH ENVIRONMENT\n%s", escape("The variable behind a flag sets it. A flag on the command line takes precedence. Passwords are in $IDWORKER_PASSWORD or $NATS_PASSWORD, or in a file."))
	p.line(".SH EXIT STATUS")
	for _, exit := range explain.Exits {
		p.line(".TP\n.B %d\n%s", exit.Code, escape(exit.Meaning))
	}
}

// foreign are the characters that roff knows by number only.
var foreign = regexp.MustCompile(`[^\x00-\x7f]`)

// escape writes text so that man shows it as it is.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	text = foreign.ReplaceAllStringFunc(text, func(s string) string {
		r, _ := utf8.DecodeRuneInString(s)
		return fmt.Sprintf(`\[u%04X]`, r)
	})
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text // else it is a request
	}
	return text
}
