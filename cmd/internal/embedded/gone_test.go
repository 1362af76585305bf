package embedded

import (
	"errors"
	"os"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// A server with a removed, moved or replaced folder reports it: it would
// continue, while another server could serve from the same place.
func TestFolderGone(t *testing.T) {
	t.Parallel()
	move := func(path string) error { return os.Rename(path, path+".moved") }
	for what, act := range map[string]func(t *testing.T, data string) error{
		"removed":  func(_ *testing.T, data string) error { return os.RemoveAll(data) },
		"moved":    func(_ *testing.T, data string) error { return move(data) },
		"replaced": func(_ *testing.T, data string) error { return errors.Join(move(data), os.Mkdir(data, 0o700)) },
		"locked by other": func(t *testing.T, data string) error {
			if err := move(data); err != nil {
				return err
			}
			other, err := openData(config(data))
			if err == nil {
				t.Cleanup(other.Close)
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			s := start(t, config(data))
			if err := s.data.Check(); err != nil {
				t.Errorf("%v while it is there", err)
			}
			told := guards(t, s)
			if err := act(t, data); err != nil {
				t.Fatal(err)
			}
			natstest.Eventually(t, "it is noticed", func() bool { return len(told) > 0 })
			if err := <-told; !errors.Is(err, ErrGone) || !errors.Is(err, ErrFolder) {
				t.Error(err)
			}
		})
	}
}
