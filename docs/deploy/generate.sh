#!/bin/sh
# generate.sh DIR makes what goes into archives and packages beside the binary:
# the manual page, completions, and the program that writes bills of materials.
set -eu
dir=$1
mkdir -p "$dir/completion"
GOBIN=$(cd "$dir" && pwd) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
go build -o "$dir/idworker" ./cmd/idworker
"$dir/idworker" man >"$dir/idworker.1"
gzip -9nc "$dir/idworker.1" >"$dir/idworker.1.gz"
for shell in bash zsh fish; do
	"$dir/idworker" completion "$shell" >"$dir/completion/idworker.$shell"
done
