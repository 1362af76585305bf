#!/bin/sh
# central.sh VERSION DIST BUNDLE packs the jars of a release the way Maven Central takes
# them: each file in the folder of its coordinates, signed with the user's only key of
# GnuPG, and with checksums.
set -eu
version=$1 dist=$2 bundle=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
for pom in "$dist"/idworker-*-"$version".pom; do
	artifact=$(basename "$pom" "-$version.pom")
	folder=$root/io/github/idworker/$artifact/$version
	mkdir -p "$folder"
	for file in "$dist/$artifact-$version"[.-]*; do
		cp "$file" "$folder"
		copy=$folder/$(basename "$file")
		gpg --batch --armor --detach-sign "$copy"
		md5sum < "$copy" | cut -c -32 > "$copy.md5"
		sha1sum < "$copy" | cut -c -40 > "$copy.sha1"
	done
done
(cd "$root" && zip -qr - io) > "$bundle"
