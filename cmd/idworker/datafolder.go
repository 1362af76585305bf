package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

// dataFolder is the folder of an embedded server. It is locked, because two servers
// on one folder would both hand out the same numbers; and it remembers how far its
// streams had come, because a server that finds a stream damaged starts without it
// or with an older end, and the same numbers would be handed out again.
type dataFolder struct {
	path string
	lock *flock.Flock
}

// errDataFolder is wrapped by the errors of a folder that cannot be used.
var errDataFolder = errors.New("data folder cannot be used")

const (
	lockFile = "idworker.lock"
	noteFile = "idworker.json"
)

// openDataFolder makes the folder if it is missing, and locks it.
func openDataFolder(path string) (*dataFolder, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("%w: %w", errDataFolder, err)
	}
	lock := flock.New(filepath.Join(path, lockFile))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("%w: lock: %w", errDataFolder, err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: another process uses %s; stop it, connect to it with --server, or choose another --data", errDataFolder, path)
	}
	return &dataFolder{path, lock}, nil
}

// close lets go of the lock.
func (f *dataFolder) close() { _ = f.lock.Unlock() } // the process's end does it too

// note writes down the last sequence of every stream that is kept on disk. Without
// it, check has less to go by, so that a failure is no more than a warning.
func (f *dataFolder) note(srv *server.Server, log *zap.Logger) {
	streams, err := fileStreams(srv)
	if err == nil && len(streams) > 0 {
		err = f.writeNote(streams)
	}
	if err != nil {
		log.Warn("state of the data folder was not noted", zap.Error(err))
	}
}

func (f *dataFolder) writeNote(streams map[string]server.StreamState) error {
	last := make(map[string]uint64, len(streams))
	for name, state := range streams {
		last[name] = state.LastSeq
	}
	data, err := json.Marshal(last)
	if err != nil {
		return err
	}
	// Written beside and renamed, so that a crash leaves the old note or the new.
	path := filepath.Join(f.path, noteFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// check compares a server that has just recovered its streams with the note, and
// notes how far they are now.
func (f *dataFolder) check(srv *server.Server) error {
	streams, err := fileStreams(srv)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(f.path, noteFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errDataFolder, err)
	}
	noted := make(map[string]uint64)
	if err == nil {
		if err := json.Unmarshal(data, &noted); err != nil {
			return f.damaged("%s: %v", noteFile, err)
		}
	}
	for name, last := range noted {
		switch state, ok := streams[name]; {
		case !ok:
			return f.damaged("stream %s is missing", name)
		case state.LastSeq < last:
			return f.damaged("stream %s ends at %d, but had come to %d", name, state.LastSeq, last)
		}
	}
	for name, state := range streams {
		if state.Lost != nil {
			return f.damaged("stream %s has lost %d messages", name, len(state.Lost.Msgs))
		}
	}
	if len(streams) == 0 {
		return nil
	}
	return f.writeNote(streams)
}

// damaged is the error for data that must not be served from.
func (f *dataFolder) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s is damaged: %s; serving from it could hand out IDs twice. Restore a backup, or begin anew in another folder with tags whose --first lies above all IDs in use",
		errDataFolder, f.path, fmt.Sprintf(format, args...))
}

// fileStreams returns the state of all streams that are kept on disk.
func fileStreams(srv *server.Server) (map[string]server.StreamState, error) {
	info, err := srv.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Config: true})
	if err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	streams := make(map[string]server.StreamState)
	for _, account := range info.AccountDetails {
		for _, stream := range account.Streams {
			if stream.Config.Storage == server.FileStorage {
				streams[stream.Name] = stream.State
			}
		}
	}
	return streams, nil
}
