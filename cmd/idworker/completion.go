package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a completion script.
type completionCmd struct {
	Shell string `arg:"" name:"bash|zsh|fish" enum:"bash,zsh,fish" help:"Shell to complete commands in."`
}

// Run prints the script.
func (c *completionCmd) Run(out output) error {
	_, err := io.WriteString(out, shellScripts[c.Shell])
	return err
}

// completeCmd is called by the completion scripts. Candidates come from the
// model of the command line, so new commands and flags need no code here.
type completeCmd struct {
	Words []string `arg:"" optional:""`
}

// Run prints the candidates for the last word, one a line: the word, a tab and
// its help.
func (c *completeCmd) Run(app *kong.Kong, out output) error {
	for _, candidate := range candidates(allCommands(app).Model, c.Words) {
		if _, err := fmt.Fprintf(out, "%s\t%s\n", candidate.word, candidate.help); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a possible word, with the first sentence of its help.
type candidate struct{ word, help string }

// fileNames, in place of a candidate, makes the shell complete file names.
const fileNames = ":files"

// candidates returns the candidates for the last word.
func candidates(app *kong.Application, words []string) []candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	node, pending, ended := app.Node, (*kong.Flag)(nil), false
	for _, word := range words[:len(words)-1] {
		name, _, hasValue := strings.Cut(word, "=")
		switch {
		case word == "=" && pending != nil: // bash splits --flag=value at the =
		case pending != nil:
			pending = nil
		case ended:
		case word == "--":
			ended = true
		case strings.HasPrefix(word, "-"):
			if flag := flagOf(node, name); flag != nil && !flag.IsBool() && !hasValue {
				pending = flag
			}
		default: // words after help are commands too
			i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word && word != "help" })
			if i >= 0 {
				node = node.Children[i]
			}
		}
	}
	current := words[len(words)-1]
	name, _, hasValue := strings.Cut(current, "=")
	var all []candidate
	switch {
	case pending != nil:
		all, current = values(pending.Value, ""), strings.TrimPrefix(current, "=")
	case ended:
	case strings.HasPrefix(current, "-") && hasValue:
		if flag := flagOf(node, name); flag != nil {
			all = values(flag.Value, name+"=")
		}
	case strings.HasPrefix(current, "-"):
		for _, flag := range flagsOf(node) {
			all = append(all, candidate{"--" + flag.Name, firstSentence(flag.Help)})
		}
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				all = append(all, candidate{child.Name, firstSentence(child.Help)})
			}
		}
		if len(node.Positional) > 0 {
			all = append(all, values(node.Positional[0], "")...)
		}
	}
	return slices.DeleteFunc(all, func(c candidate) bool {
		return c.word != fileNames && !strings.HasPrefix(c.word, current)
	})
}

// flagsOf returns the flags that may follow a command.
func flagsOf(node *kong.Node) (all []*kong.Flag) {
	all = slices.Concat(node.AllFlags(true)...)
	if node.DefaultCmd != nil {
		all = append(all, node.DefaultCmd.Flags...)
	}
	return slices.DeleteFunc(all, func(f *kong.Flag) bool { return f.Hidden })
}

func flagOf(node *kong.Node, word string) *kong.Flag {
	for _, flag := range flagsOf(node) {
		if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

// values returns the values of a flag or argument that its enum lists, each
// with a prefix.
func values(v *kong.Value, prefix string) (all []candidate) {
	if slices.Contains([]string{"path", "existingfile", "existingdir"}, v.Tag.Type) {
		return []candidate{{word: fileNames}}
	}
	for _, value := range v.EnumSlice() {
		if value != "" {
			all = append(all, candidate{word: prefix + value})
		}
	}
	return all
}

func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(strings.Join(strings.Fields(first), " "), ".")
}

// shellScripts are the completion scripts, by shell. They pass the words of the
// command line to complete, and show its output.
var shellScripts = map[string]string{
	"bash": `# Completion for idworker. To have it in this shell:
#   source <(idworker completion bash)
_idworker() {
	local IFS=$'\n' found
	found=$("${COMP_WORDS[0]/#\~/$HOME}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
	if [[ $found == :files* ]]; then
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}"))
		return
	fi
	COMPREPLY=($(cut -f 1 <<<"$found"))
	if [[ ${COMP_WORDS[COMP_CWORD]} == --*=* ]]; then
		COMPREPLY=("${COMPREPLY[@]#*=}")
	fi
}
complete -F _idworker idworker
`,
	"zsh": `#compdef idworker
# Completion for idworker. To have it in this shell:
#   source <(idworker completion zsh)
_idworker() {
	local -a found
	local line
	while IFS= read -r line; do
		if [[ $line == :files* ]]; then
			_files
			return
		fi
		line=${line//:/\\:}
		found+=("${line%%$'\t'*}:${line#*$'\t'}")
	done < <("${(Q)words[1]/#\~/$HOME}" complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)
	_describe idworker found
}
if [[ $funcstack[1] == _idworker ]]; then
	_idworker "$@"
else
	compdef _idworker idworker
fi
`,
	"fish": `# Completion for idworker. To have it in this shell:
#   idworker completion fish | source
function __idworker_complete
	set -l words (commandline -opc) (commandline -ct)
	set -l found ($words[1] complete $words[2..] 2>/dev/null)
	if string match -q ':files*' -- $found[1]
		__fish_complete_path (commandline -ct)
	else
		printf '%s\n' $found
	end
end
complete -c idworker -f -a '(__idworker_complete)'
`,
}
