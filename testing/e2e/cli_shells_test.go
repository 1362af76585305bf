package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shells are the commands that have each shell complete a line, with idworker's
// script.
var shells = map[string]string{
	"bash": `source <(idworker completion bash)
		complete_line() { read -ra COMP_WORDS <<<"$1"; [[ $1 == *' ' ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _idworker; printf '%s\n' "${COMPREPLY[@]}"; }
		complete_line "$1"`,
	"zsh": `compdef() {}; source <(idworker completion zsh)
		_describe() { print -rl -- "${(@)${(P)2}%%:*}" }; _files() { ls -d $words[-1]* }
		words=(${(z)1}); [[ $1 == *' ' ]] && words+=(""); CURRENT=$#words; _idworker`,
	"fish": `idworker completion fish | source; complete -C "$argv[1]"`,
}

// completion has each shell that is here complete command lines.
func completion(t *testing.T) {
	bin := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(bin, "idworker")); err != nil {
		t.Fatal(err)
	}
	for shell, script := range shells {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("no %s here", shell)
			continue
		}
		for line, want := range map[string]string{
			"idworker tag r":                          "raise rm",
			"idworker doctor --role au":               "auditor",
			"idworker help tag exp":                   "export",
			"idworker get --snow":                     "--snowflake",
			"idworker doctor --creds " + bin + "/idw": bin + "/idworker",
		} {
			args := map[string][]string{"bash": {"-c", script, "x", line}, "zsh": {"-f", "-c", script, "x", line}, "fish": {"-c", script, line}}[shell]
			cmd := exec.Command(shell, args...)
			cmd.Env = append(neutralEnv(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+bin)
			out, err := cmd.CombinedOutput()
			var words []string
			for l := range strings.Lines(string(out)) {
				word, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
				words = append(words, word)
			}
			slices.Sort(words) // shells have their own order
			if got := strings.Join(words, " "); err != nil || got != want {
				t.Errorf("%s: %q is completed to %q, want %q; %v", shell, line, words, want, err)
			}
		}
	}
}
