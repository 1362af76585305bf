package embedded

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// A server whose folder, or that of its witness, is removed, moved or replaced is told of: it would go on, and
// somebody else could serve from the same place.
func TestFolderGone(t *testing.T) {
	t.Parallel()
	move := func(path string) error { return os.Rename(path, path+".moved") }
	for what, act := range map[string]func(data string) error{
		"removed":  os.RemoveAll,
		"moved":    move,
		"replaced": func(data string) error { return errors.Join(move(data), os.Mkdir(data, 0o700)) },
		"locked by other": func(data string) error {
			if err := move(data); err != nil {
				return err
			}
			cfg := config(data)
			cfg.Witness = t.TempDir()
			other, err := openData(cfg)
			if err == nil {
				t.Cleanup(other.Close)
			}
			return err
		},
		"witness removed": func(data string) error { return os.RemoveAll(WitnessOf(data)) },
	} {
		data := t.TempDir()
		s := start(t, config(data))
		if err := s.data.Check(); err != nil {
			t.Errorf("%s: %v while it is there", what, err)
		}
		told := make(chan error, 1)
		go func() { told <- s.Guard(t.Context()) }()
		if err := act(data); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, what+" is noticed", func() bool { return len(told) > 0 })
		if err := <-told; !errors.Is(err, ErrGone) || !errors.Is(err, ErrFolder) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Nothing is told of a folder that is there.
func TestFolderThere(t *testing.T) {
	t.Parallel()
	s := start(t, config(t.TempDir()))
	ctx, cancel := context.WithTimeout(t.Context(), 3*folderPoll)
	defer cancel()
	if err := s.Guard(ctx); err != nil {
		t.Error(err)
	}
}
