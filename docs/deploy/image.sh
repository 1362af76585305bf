#!/bin/sh
# image.sh DIST writes the container image of a release, without a Docker engine and
# without a registry: DIST/idworker_VERSION_image.tar, an OCI layout with an image for
# each processor. `docker load` reads it, and so does `skopeo copy --all
# oci-archive:FILE docker://REGISTRY/NAME:TAG`, which publishes it.
#
# The binaries are those that goreleaser has written to DIST. A release gives the same
# file each time, because all times are those of the commit, and regctl and the
# certificate authorities have pinned versions. It needs GNU tar.
#
# ko needs a registry for its base image, and crane cannot declare a volume.
set -eu
dist=$1
value() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$dist/metadata.json"; }
version=$(value version) commit=$(value commit)
time=$(TZ=UTC git show -s --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd "$commit")
SOURCE_DATE_EPOC=$(git show -s --format=%ct "$commit") # regctl spells it without H
export SOURCE_DATE_EPOC
name=ghcr.io/idworker/idworker:$(echo "$version" | tr + -) # a tag has no plus sign
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layout=ocidir://$work/layout:image
GOBIN=$work go install github.com/regclient/regclient/cmd/regctl@v0.11.7
go run ./testing/release/authorities >"$work/authorities"

pack() { tar --format=ustar --sort=name --mtime="$time" --numeric-owner "$@"; }

set --
for label in \
	title=idworker \
	'description=Unique 64-bit IDs over NATS' \
	url=https://github.com/idworker/idworker \
	source=https://github.com/idworker/idworker \
	documentation=https://github.com/idworker/idworker/blob/main/docs/containers.md \
	licenses=Apache-2.0 \
	"version=$version" "revision=$commit" "created=$time"; do
	set -- "$@" --label "org.opencontainers.image.$label"
done

# There is no shell, and no time zone data: times in logs are then UTC. Kubernetes cannot
# check that a name is not root's, so the image has the user's number. The data folder is
# also writable to the group 0, because platforms such as OpenShift choose any other number
# for the user, and that group.
for arch in amd64 arm64; do
	root=$work/$arch
	mkdir -p "$root/data" "$root/etc/ssl/certs" "$root/usr/local/bin"
	cp "$dist/idworker_linux_${arch}"_*/idworker "$root/usr/local/bin"
	cp docs/deploy/image/etc/* "$root/etc"
	cp "$work/authorities" "$root/etc/ssl/certs/ca-certificates.crt"
	pack -cf "$root.tar" -C "$root" --owner=0 --group=0 --mode=u=rwX,go=rX etc usr
	pack -rf "$root.tar" -C "$root" --owner=65534 --group=0 --mode=0770 data
	"$work/regctl" image create --platform "linux/$arch" --created "$time" "$@" "$layout-$arch"
done

# The embedded server's data folder is below the working directory, which is a volume, so
# that it is writable even in a read-only container that names none.
"$work/regctl" index create --ref "$layout-amd64" --ref "$layout-arm64" "$layout"
"$work/regctl" image mod --replace \
	--layer-add "tar=$work/amd64.tar,platform=linux/amd64" --layer-add "tar=$work/arm64.tar,platform=linux/arm64" \
	--user 65534:65534 --env PATH=/usr/local/bin --workdir /data --volume-add /data \
	--config-entrypoint '["/usr/local/bin/idworker"]' --config-cmd '["serve"]' \
	--label-to-annotation --annotation-promote "$layout" >/dev/null
file=$dist/idworker_${version}_image.tar
"$work/regctl" image export --name "$name" "$layout" "$file"

# For `docker load` of an engine that does not use containerd's images.
loadable() {
	"$work/regctl" manifest get --platform "linux/$1" --format "{
  \"Config\": \"blobs/sha256/{{.Config.Digest.Encoded}}\", \"RepoTags\": [\"$name-$1\"],
  \"Layers\": [\"blobs/sha256/{{(index .Layers 0).Digest.Encoded}}\"]
}" "$layout"
}
amd64=$(loadable amd64)
arm64=$(loadable arm64)
echo "[$amd64, $arm64]" >"$work/manifest.json"
pack -rf "$file" -C "$work" --owner=0 --group=0 --mode=0644 manifest.json
echo "$file"
