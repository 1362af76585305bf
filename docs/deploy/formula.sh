#!/bin/sh
# formula.sh VERSION CHECKSUMS prints the Homebrew formula of a release.
set -eu
version=$1
sum() { awk -v name="idworker_${version}_$1.tar.gz" '$2 == name {print $1}' "$2"; }
cat <<END
class Idworker < Formula
  desc "Unique 64-bit IDs over NATS"
  homepage "https://github.com/idworker/idworker"
  version "$version"
  license "Apache-2.0"
END
for os in darwin linux; do
	printf '\n  on_%s do\n' "$(echo $os | sed s/darwin/macos/)"
	for arch in amd64 arm64; do
		cat <<END
    on_$(echo $arch | sed 's/amd64/intel/; s/arm64/arm/') do
      url "https://github.com/idworker/idworker/releases/download/v$version/idworker_${version}_${os}_$arch.tar.gz"
      sha256 "$(sum ${os}_$arch "$2")"
    end
END
	done
	echo '  end'
done
cat <<'END'

  def install
    bin.install "idworker"
    man1.install "man/idworker.1"
    bash_completion.install "completion/idworker.bash" => "idworker"
    zsh_completion.install "completion/idworker.zsh" => "_idworker"
    fish_completion.install "completion/idworker.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/idworker version")
  end
end
END
