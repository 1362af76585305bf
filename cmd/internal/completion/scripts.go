package completion

// Scripts are what shells read, by the name of the shell. They call the program that is completed, as it was
// typed.
var Scripts = map[string]string{
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
