package pages

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// NATSCLI is the command of NATS that the pages use.
const NATSCLI = "github.com/nats-io/natscli/nats@v0.5.1"

// Step is a command with its output, or Ctrl-C.
type Step struct {
	Line      int
	Command   string   // "" if this is a Ctrl-C to a command of another block
	Output    []string // what it prints, according to the page
	Interrupt bool     // it is ended with Ctrl-C
	After     []string // printed after Ctrl-C
}

// typed is how lines begin that look like commands.
var typed = regexp.MustCompile(`^(?:[A-Z_]+=\S+ +)*(?:make|bin/idworker|idworker|go|git|nats|nats-server|nsc|curl|docker|kubectl|helm|export|source|\.|cd|npm|node|sudo|apt|apt-get|dpkg|rpm|systemctl) +\S`)

func command(line string) bool { return strings.HasPrefix(line, "$ ") || typed.MatchString(line) }

// shells are the languages of blocks with commands.
var shells = []string{"", "console", "sh", "bash"}

// kinds are the kinds of databases.
var kinds = []string{"mysql", "postgres"}

// HasCommands reports whether a reader would type the block.
func (b Block) HasCommands() bool {
	switch {
	case b.RunIn != nil || b.File != "":
		return true
	case !slices.Contains(shells, b.Language):
		return false
	}
	return slices.ContainsFunc(b.Lines, func(line string) bool { return line == "^C" || command(line) })
}

// Steps are the commands of a block, with their output.
func (b Block) Steps() (steps []Step, err error) {
	for i := 0; i < len(b.Lines); i++ {
		line, number := b.Lines[i], b.Line+i
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			for strings.HasSuffix(text, "\\") && i+1 < len(b.Lines) {
				i++
				text += "\n" + b.Lines[i]
			}
			steps = append(steps, Step{Line: number, Command: text})
			continue
		}
		if line == "^C" && (len(steps) == 0 || steps[len(steps)-1].Interrupt) {
			steps = append(steps, Step{Line: number})
		}
		if len(steps) == 0 {
			return nil, fmt.Errorf("line %d: %q: begin commands with \"$ \"", number, line)
		}
		last := &steps[len(steps)-1]
		switch {
		case line == "^C":
			last.Interrupt = true
		case last.Interrupt:
			last.After = append(last.After, line)
		default:
			last.Output = append(last.Output, line)
		}
	}
	return steps, nil
}

// Fails reports whether the page shows that the command fails.
func (s Step) Fails() bool {
	return slices.ContainsFunc(s.Output, func(line string) bool {
		return strings.HasPrefix(line, "idworker: ") || strings.HasPrefix(line, "FAIL ")
	})
}
