// Package image tests the container image that docs/deploy/image.sh has built: what is in it,
// and that it runs.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	oci "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/idworker/idworker/testing/tier"
)

// dist is where make release puts its results.
const dist = "../../../dist"

// built is the image that make release has built.
type built struct {
	t     testing.TB
	path  string
	files map[string][]byte
}

func open(t testing.TB) *built {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dist, "idworker_*_image.tar"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("images in dist: %v, expected one; run: make release SNAPSHOT=1", paths)
	}
	b := &built{t: t, path: paths[0], files: make(map[string][]byte)}
	data, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	b.each(bytes.NewReader(data), func(h *tar.Header, data []byte) { b.files[h.Name] = data })
	return b
}

// each reads a tar file.
func (b *built) each(r io.Reader, do func(*tar.Header, []byte)) {
	b.t.Helper()
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(archive)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		do(h, data)
	}
}

// blob returns a blob, whose digest and size have to be as described.
func (b *built) blob(d oci.Descriptor) []byte {
	b.t.Helper()
	data, ok := b.files["blobs/"+d.Digest.Algorithm().String()+"/"+d.Digest.Encoded()]
	if !ok || int64(len(data)) != d.Size || d.Digest.Algorithm().FromBytes(data) != d.Digest {
		b.t.Fatalf("blob %s is missing or differs from its description", d.Digest)
	}
	return data
}

func (b *built) read(data []byte, to any) {
	b.t.Helper()
	if err := json.Unmarshal(data, to); err != nil {
		b.t.Fatalf("%v in %s", err, data)
	}
}

// platforms are the images by processor.
func (b *built) platforms() map[string]oci.Manifest {
	b.t.Helper()
	var top, index oci.Index
	b.read(b.files["index.json"], &top)
	b.read(b.blob(top.Manifests[0]), &index)
	images := make(map[string]oci.Manifest)
	for _, d := range index.Manifests {
		var m oci.Manifest
		b.read(b.blob(d), &m)
		images[d.Platform.Architecture] = m
	}
	return images
}

// config is the configuration of an image.
func (b *built) config(m oci.Manifest) (config oci.Image) {
	b.t.Helper()
	b.read(b.blob(m.Config), &config)
	return config
}

// eachFile reads the files of an image.
func (b *built) eachFile(m oci.Manifest, do func(*tar.Header, []byte)) {
	b.t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(b.blob(m.Layers[0])))
	if err != nil {
		b.t.Fatal(err)
	}
	b.each(zip, do)
}

// TestImage: the image has both processors. Its process is not root, and there
// is nothing but a static binary, certificates, two lists of users, and a
// folder that the process may write to.
func TestImage(t *testing.T) {
	tier.Release(t)
	b := open(t)
	images := b.platforms()
	if got := slices.Sorted(maps.Keys(images)); !slices.Equal(got, []string{"amd64", "arm64"}) {
		t.Fatalf("processors %v", got)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	want := map[string]string{
		"data/":                             "drwxrwx--- 65534:0",
		"etc/":                              "drwxr-xr-x 0:0",
		"etc/group":                         "-rw-r--r-- 0:0",
		"etc/passwd":                        "-rw-r--r-- 0:0",
		"etc/ssl/":                          "drwxr-xr-x 0:0",
		"etc/ssl/certs/":                    "drwxr-xr-x 0:0",
		"etc/ssl/certs/ca-certificates.crt": "-rw-r--r-- 0:0",
		"usr/":                              "drwxr-xr-x 0:0",
		"usr/local/":                        "drwxr-xr-x 0:0",
		"usr/local/bin/":                    "drwxr-xr-x 0:0",
		"usr/local/bin/idworker":            "-rwxr-xr-x 0:0",
	}
	for arch, m := range images {
		image := b.config(m)
		c := image.Config
		if image.Architecture != arch || image.OS != "linux" || c.User != "65534:65534" || c.WorkingDir != "/data" ||
			!slices.Equal(c.Entrypoint, []string{"/usr/local/bin/idworker"}) || !slices.Equal(c.Cmd, []string{"serve"}) ||
			!slices.Equal(slices.Collect(maps.Keys(c.Volumes)), []string{"/data"}) {
			t.Errorf("%s: %+v", arch, image)
		}
		for _, label := range []string{oci.AnnotationVersion, oci.AnnotationRevision, oci.AnnotationSource, oci.AnnotationLicenses, oci.AnnotationCreated} {
			if c.Labels[label] == "" {
				t.Errorf("%s: no label %s", arch, label)
			}
		}
		got := make(map[string]string)
		b.eachFile(m, func(h *tar.Header, data []byte) {
			got[h.Name] = fmt.Sprintf("%v %d:%d", h.FileInfo().Mode(), h.Uid, h.Gid)
			switch h.Name {
			case "usr/local/bin/idworker":
				checkStatic(t, data, machines[arch])
			case "etc/ssl/certs/ca-certificates.crt":
				if !x509.NewCertPool().AppendCertsFromPEM(data) {
					t.Errorf("%s: no certificate in %s", arch, h.Name)
				}
			}
		})
		if !maps.Equal(got, want) {
			t.Errorf("%s: files %v, expected %v", arch, got, want)
		}
	}
}

// checkStatic fails unless a binary is for a processor and needs no library.
func checkStatic(t *testing.T, binary []byte, machine elf.Machine) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if f.Machine != machine {
		t.Errorf("binary for %v, expected %v", f.Machine, machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("the binary for %v is not static", machine)
		}
	}
}

// TestImageIsReproducible: building again gives the same file.
func TestImageIsReproducible(t *testing.T) {
	tier.Release(t)
	first := open(t)
	before, err := os.ReadFile(first.path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "docs/deploy/image.sh", "dist")
	cmd.Dir = "../../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after := open(t)
	data, err := os.ReadFile(after.path)
	if err != nil || after.path != first.path || !bytes.Equal(before, data) {
		t.Errorf("%s differs from %s: %v", after.path, first.path, err)
	}
}
