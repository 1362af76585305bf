// Command image writes the container image of a release, without a Docker
// engine:
//
//	go run ./testing/release/image -dist dist
//
// It reads what goreleaser has written to the folder: metadata.json,
// artifacts.json, and the binaries for Linux. It writes
// dist/idworker_VERSION_image.tar, an OCI layout with an image for each
// processor. `docker load` reads it, and so does `skopeo copy --all
// oci-archive:FILE docker://REGISTRY/NAME:TAG`, which publishes it.
//
// A release gives the same file each time: times are those of the commit, and
// certificate authorities have a pinned version.
//
// ko and `crane append` would need fewer lines, but neither can add a user's
// volume and certificates to an empty image without a registry.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	dist := flag.String("dist", "dist", "Folder with goreleaser's results.")
	flag.Parse()
	path, err := build(*dist)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

// build writes the image of the release in a folder.
func build(dist string) (path string, err error) {
	r, err := readRelease(dist)
	if err != nil {
		return "", err
	}
	authorities, err := authorities()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dist, "idworker_"+r.Version+"_image.tar")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if err := r.writeLayout(f, authorities); err != nil {
		return "", err
	}
	return path, f.Close()
}

// release is a release that goreleaser has built.
type release struct {
	Version string
	Commit  string
	time    time.Time // of the commit
	// Paths of the binaries for Linux, by processor.
	binaries map[string]string
}

// readRelease reads goreleaser's description of its results.
func readRelease(dist string) (*release, error) {
	r := &release{binaries: make(map[string]string)}
	if err := readJSON(filepath.Join(dist, "metadata.json"), r); err != nil {
		return nil, err
	}
	var artifacts []struct{ Name, Path, Goos, Goarch, Type string }
	if err := readJSON(filepath.Join(dist, "artifacts.json"), &artifacts); err != nil {
		return nil, err
	}
	for _, a := range artifacts {
		if a.Type != "Binary" || a.Goos != "linux" || a.Name != "idworker" {
			continue
		}
		if other := r.binaries[a.Goarch]; other != "" {
			return nil, fmt.Errorf("two binaries for %s: %s, %s", a.Goarch, other, a.Path)
		}
		// The path is relative to the folder where goreleaser ran.
		r.binaries[a.Goarch] = filepath.Join(dist, filepath.Base(filepath.Dir(a.Path)), filepath.Base(a.Path))
	}
	if r.Version == "" || r.Commit == "" || len(r.binaries) == 0 {
		return nil, fmt.Errorf("%s: no version, commit, or binaries for Linux", dist)
	}
	out, err := exec.Command("git", "show", "-s", "--format=%ct", r.Commit).Output()
	if err != nil {
		return nil, fmt.Errorf("time of commit %s: %w", r.Commit, err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	r.time = time.Unix(seconds, 0).UTC()
	return r, err
}

func readJSON(path string, to any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
