package embedded

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/testing/tier"
)

// disk mounts a disk in memory on a folder.
func disk(t *testing.T, size int) (folder string) {
	t.Helper()
	tier.All(t)
	folder = t.TempDir()
	if err := syscall.Mount("idworker", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("cannot mount a disk, which takes root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	return folder
}

// fill fills the disk except for some bytes.
func fill(t *testing.T, file string, but int64) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	noise, size := make([]byte, 4<<10), int64(0)
	for err == nil {
		_, _ = rand.Read(noise)
		var n int
		n, err = f.Write(noise)
		size += int64(n)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Truncate(max(size-but, 0)); err != nil {
		t.Fatal(err)
	}
}

// TestFullDiskForReal: once a full disk has space again, the server ends,
// serves after a restart, and reserves nothing twice. This holds for any space
// that was left for the last writes, and with the witness on the same disk.
func TestFullDiskForReal(t *testing.T) {
	t.Parallel()
	mounted := disk(t, 4<<20)
	cfg := config(filepath.Join(mounted, "data"))
	given := make(handedOut)
	for round := range tier.Pick(5, 100) {
		s := start(t, cfg)
		segments := openStore(t, s)
		if round == 0 {
			create(t, segments, "order")
		}
		given.reserve(t, segments, "order", 20)
		told := guards(t, s)
		filler := filepath.Join(mounted, "filler")
		fill(t, filler, int64(round%3)<<12)
		natstest.Eventually(t, "a write fails", func() bool {
			segment, err := storetest.Reserve(t.Context(), segments, "order", 10)
			if err == nil {
				given.add(t, "order", segment.Segment)
			}
			return s.Trouble() != nil
		})
		if len(told) > 0 {
			t.Fatalf("ended while the disk is full: %v", <-told)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "it ends", func() bool { return len(told) > 0 })
		if err := <-told; !errors.Is(err, ErrUnwritten) || !strings.Contains(err.Error(), "no space left on device") {
			t.Error(err)
		}
		s.Stop()
	}
	given.reserve(t, openStore(t, start(t, cfg)), "order", 20)
}

// TestReadOnlyDisk: a start names the reason, which the server hides.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	mounted := disk(t, 16<<20)
	cfg := config(filepath.Join(mounted, "data"))
	start(t, cfg).Stop()
	if err := syscall.Mount("", mounted, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), cfg); !errors.Is(err, syscall.EROFS) {
		t.Error(err)
	}
}

// TestRoomThatComes: a server that started on a nearly full disk uses new
// space.
func TestRoomThatComes(t *testing.T) {
	t.Parallel()
	mounted := disk(t, 16<<20)
	cfg := config(filepath.Join(mounted, "data"))
	s := start(t, cfg)
	createBucket(t, s, "b")
	s.Stop()
	filler := filepath.Join(mounted, "filler")
	fill(t, filler, 1<<20)
	s = start(t, cfg)
	kv := createBucket(t, s, "b")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 512<<10)
	for i := range 8 {
		if _, err := kv.Put(t.Context(), fmt.Sprint(i), large); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
}
