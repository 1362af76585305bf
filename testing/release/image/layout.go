package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// repository is the name of the published image.
const repository = "ghcr.io/idworker/idworker"

// userID is the user and group of the process. Kubernetes cannot check that a
// name is not root's, so the image has the number.
const userID = 65534

// volume is the only folder that the process may write to.
const volume = "/data"

// layout collects the parts of an OCI layout.
type layout struct {
	blobs []blob
	// For `docker load` of an engine that does not use containerd's images.
	loadable []loadable
}

// loadable is an entry of manifest.json, in the format of `docker save`.
type loadable struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// writeLayout writes the images of all processors.
func (r *release) writeLayout(w io.Writer, authorities []byte) error {
	l := new(layout)
	index := oci.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageIndex, Annotations: r.labels()}
	for _, arch := range slices.Sorted(maps.Keys(r.binaries)) {
		image, err := l.addImage(r, arch, authorities)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		index.Manifests = append(index.Manifests, image)
	}
	named := l.addJSON(oci.MediaTypeImageIndex, index)
	named.Annotations = map[string]string{
		oci.AnnotationRefName:      r.tag(),
		"io.containerd.image.name": repository + ":" + r.tag(), // for docker load
	}
	files := []blob{
		{name: oci.ImageLayoutFile, data: asJSON(oci.ImageLayout{Version: oci.ImageLayoutVersion})},
		{name: oci.ImageIndexFile, data: asJSON(oci.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageIndex, Manifests: []oci.Descriptor{named},
		})},
		{name: "manifest.json", data: asJSON(l.loadable)},
	}
	return writeTar(w, r.time, append(files, l.blobs...))
}

// addImage adds the image for a processor, which has a single layer.
func (l *layout) addImage(r *release, arch string, authorities []byte) (oci.Descriptor, error) {
	binary, err := os.ReadFile(r.binaries[arch])
	if err != nil {
		return oci.Descriptor{}, err
	}
	var plain, packed bytes.Buffer
	if err := writeTar(&plain, r.time, contents(binary, authorities)); err != nil {
		return oci.Descriptor{}, err
	}
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // a valid level
	if _, err := zip.Write(plain.Bytes()); err != nil {
		return oci.Descriptor{}, err
	}
	if err := zip.Close(); err != nil {
		return oci.Descriptor{}, err
	}
	platform := oci.Platform{OS: "linux", Architecture: arch}
	layer := l.add(oci.MediaTypeImageLayerGzip, packed.Bytes())
	config := l.addJSON(oci.MediaTypeImageConfig, oci.Image{
		Created:  &r.time,
		Platform: platform,
		RootFS:   oci.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(plain.Bytes())}},
		History:  []oci.History{{Created: &r.time, CreatedBy: "testing/release/image"}},
		Config: oci.ImageConfig{
			User:       fmt.Sprintf("%d:%d", userID, userID),
			Env:        []string{"PATH=/usr/local/bin"},
			Entrypoint: []string{"/usr/local/bin/idworker"},
			Cmd:        []string{"serve"},
			// The embedded server's data folder is below the working directory.
			WorkingDir: volume,
			// Writable even in a read-only container that names no volume.
			Volumes: map[string]struct{}{volume: {}},
			Labels:  r.labels(),
		},
	})
	image := l.addJSON(oci.MediaTypeImageManifest, oci.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageManifest,
		Config: config, Layers: []oci.Descriptor{layer}, Annotations: r.labels(),
	})
	image.Platform = &platform
	l.loadable = append(l.loadable, loadable{
		Config: blobPath(config), Layers: []string{blobPath(layer)}, RepoTags: []string{repository + ":" + r.tag() + "-" + arch},
	})
	return image, nil
}

// contents are the files of an image. There is no shell, and no time zone data:
// times in logs are then UTC.
func contents(binary, authorities []byte) []blob {
	return []blob{
		{name: "data/", owner: userID, mode: 0o700},
		{name: "etc/"},
		{name: "etc/group", data: fmt.Appendf(nil, "root:x:0:\nnobody:x:%d:\n", userID)},
		{name: "etc/passwd", data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nnobody:x:%d:%d:nobody:%s:/sbin/nologin\n", userID, userID, volume)},
		{name: "etc/ssl/"},
		{name: "etc/ssl/certs/"},
		{name: "etc/ssl/certs/ca-certificates.crt", data: authorities},
		{name: "usr/"},
		{name: "usr/local/"},
		{name: "usr/local/bin/"},
		{name: "usr/local/bin/idworker", data: binary, mode: 0o755},
	}
}

// labels describe the image.
func (r *release) labels() map[string]string {
	return map[string]string{
		oci.AnnotationTitle:         "idworker",
		oci.AnnotationDescription:   "Unique 64-bit IDs over NATS",
		oci.AnnotationURL:           "https://github.com/idworker/idworker",
		oci.AnnotationSource:        "https://github.com/idworker/idworker",
		oci.AnnotationDocumentation: "https://github.com/idworker/idworker/blob/main/docs/containers.md",
		oci.AnnotationLicenses:      "Apache-2.0",
		oci.AnnotationVersion:       r.Version,
		oci.AnnotationRevision:      r.Commit,
		oci.AnnotationCreated:       r.time.Format(time.RFC3339),
	}
}

// tag is the version as a tag, which may not contain a plus sign.
func (r *release) tag() string { return strings.ReplaceAll(r.Version, "+", "-") }

// add adds a blob, and describes it.
func (l *layout) add(mediaType string, data []byte) oci.Descriptor {
	d := oci.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	l.blobs = append(l.blobs, blob{name: blobPath(d), data: data})
	return d
}

func (l *layout) addJSON(mediaType string, v any) oci.Descriptor { return l.add(mediaType, asJSON(v)) }

func blobPath(d oci.Descriptor) string {
	return "blobs/" + d.Digest.Algorithm().String() + "/" + d.Digest.Encoded()
}

// asJSON encodes a value of this file, none of which can fail.
func asJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// file is an entry of a tar file: a folder if its name ends with a slash.
type blob struct {
	name  string
	data  []byte
	owner int
	mode  int64 // 0: readable for all
}

// writeTar writes files with one time.
func writeTar(w io.Writer, at time.Time, files []blob) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.data)), Mode: f.mode, Uid: f.owner, Gid: f.owner, ModTime: at}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		switch {
		case f.mode != 0:
		case h.Typeflag == tar.TypeDir:
			h.Mode = 0o755
		default:
			h.Mode = 0o644
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}
