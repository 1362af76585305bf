package schema

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestImageIsValid: a registry's client accepts the image that make release has
// built, in both of its forms: all digests and sizes are right.
func TestImageIsValid(t *testing.T) {
	paths, err := filepath.Glob("../../../dist/idworker_*_image.tar")
	if err != nil || len(paths) == 0 {
		t.Skip("left out: no image in dist; run: make release SNAPSHOT=1")
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", paths[0], "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	open := func() (io.ReadCloser, error) { return os.Open(paths[0]) }
	loadable, err := tarball.LoadManifest(open)
	if err != nil || len(loadable) != 2 {
		t.Fatalf("manifest.json: %v, %v", loadable, err)
	}
	for _, d := range loadable {
		tag, err := name.NewTag(d.RepoTags[0])
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.Image(open, &tag)
		if err == nil {
			err = validate.Image(image)
		}
		if err != nil {
			t.Errorf("%s: %v", tag, err)
		}
	}
}
