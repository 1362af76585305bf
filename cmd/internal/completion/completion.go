// Package completion tells shells what a word of the command line could be. It reads that from the
// model of the command line, so a new command or flag needs no word here.
//
// A shell's script only passes on the words that were typed, and shows what comes back.
package completion

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Candidate is what a word could be.
type Candidate struct {
	Word string
	Help string // "" if there is none
}

// files in place of candidates has the shell complete names of files.
const files = ":files"

// Write prints the candidates for the last of the words, a line each, with a tab before the help.
func Write(w io.Writer, app *kong.Application, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	before, current := words[:len(words)-1], words[len(words)-1]
	for _, c := range Find(app, before, current) {
		if _, err := fmt.Fprintf(w, "%s\t%s\n", c.Word, c.Help); err != nil {
			return err
		}
	}
	return nil
}

// Find returns the candidates for a word, given those before it.
func Find(app *kong.Application, before []string, current string) []Candidate {
	at := &cursor{node: app.Node}
	for _, word := range before {
		at.pass(word)
	}
	return at.candidates(current)
}

// cursor is where in the command line the next word stands.
type cursor struct {
	node  *kong.Node
	value *kong.Flag // the next word is its value
	ended bool       // no flag and no command can follow
}

// pass goes behind a word.
func (c *cursor) pass(word string) {
	switch {
	case word == "=" && c.value != nil: // bash makes this a word
	case c.value != nil:
		c.value = nil
	case c.ended:
	case word == "--":
		c.ended = true
	case strings.HasPrefix(word, "-"):
		name, _, hasValue := strings.Cut(word, "=")
		if flag := c.flag(name); flag != nil && !flag.IsBool() && !hasValue {
			c.value = flag
		}
	case word == "help": // the words behind it are commands
	default:
		if child := c.child(word); child != nil {
			c.node = child
		}
	}
}

func (c *cursor) candidates(current string) []Candidate {
	name, value, hasValue := strings.Cut(current, "=")
	switch {
	case c.value != nil:
		return values(c.value.Value, strings.TrimPrefix(current, "="), "")
	case c.ended:
		return nil
	case strings.HasPrefix(current, "--") && hasValue:
		if flag := c.flag(name); flag != nil {
			return values(flag.Value, value, name+"=")
		}
		return nil
	case strings.HasPrefix(current, "-"):
		return c.flagCandidates(current)
	}
	return append(c.commands(current), c.arguments(current)...)
}

// flags are those that may stand here.
func (c *cursor) flags() (all []*kong.Flag) {
	levels := c.node.AllFlags(true)
	if c.node.DefaultCmd != nil {
		levels = append(levels, c.node.DefaultCmd.Flags)
	}
	for _, level := range levels {
		for _, flag := range level {
			if !flag.Hidden {
				all = append(all, flag)
			}
		}
	}
	return all
}

func (c *cursor) flag(word string) *kong.Flag {
	for _, flag := range c.flags() {
		if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

func (c *cursor) flagCandidates(current string) (all []Candidate) {
	for _, flag := range c.flags() {
		if word := "--" + flag.Name; strings.HasPrefix(word, current) {
			all = append(all, Candidate{word, summary(flag.Help)})
		}
	}
	return all
}

func (c *cursor) child(name string) *kong.Node {
	i := slices.IndexFunc(c.node.Children, func(n *kong.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return c.node.Children[i]
}

func (c *cursor) commands(current string) (all []Candidate) {
	for _, child := range c.node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, current) {
			all = append(all, Candidate{child.Name, summary(child.Help)})
		}
	}
	return all
}

func (c *cursor) arguments(current string) []Candidate {
	if len(c.node.Positional) == 0 {
		return nil
	}
	return values(c.node.Positional[0], current, "")
}

// values are what is known of the values of a flag or an argument, each behind a prefix.
func values(v *kong.Value, current, prefix string) (all []Candidate) {
	switch {
	case v.Enum != "":
		for _, value := range v.EnumSlice() {
			if strings.HasPrefix(value, current) {
				all = append(all, Candidate{Word: prefix + value})
			}
		}
	case slices.Contains([]string{"path", "existingfile", "existingdir"}, v.Tag.Type):
		all = append(all, Candidate{Word: files})
	}
	return all
}

// summary is the first sentence of a help text, on one line.
func summary(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(strings.Join(strings.Fields(first), " "), ".")
}
