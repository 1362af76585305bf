package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/problem"
)

// storeFlags select the store of segments.
type storeFlags struct {
	Store     string `help:"Store: jetstream, mysql://… or postgres://…" default:"jetstream" placeholder:"DSN"`
	StoreFile string `help:"File with the store's DSN." type:"path" placeholder:"FILE"`
	Table     string `help:"Leaf table in the database." default:"leaf_alloc"`
}

// backend parses the flags and the file. A command calls it once, before
// anything else.
func (f storeFlags) backend() (backend.Backend, error) {
	dsn := f.Store
	if f.StoreFile != "" {
		data, err := os.ReadFile(f.StoreFile)
		if err != nil {
			return backend.Backend{}, problem.Usage(fmt.Errorf("--store-file: %w", err))
		}
		dsn = strings.TrimSpace(string(data))
	}
	b, err := backend.Parse(dsn, f.Table)
	switch {
	case dsn == "":
		return b, problem.Usage(fmt.Errorf("--store: empty, %w", err))
	case errors.Is(err, backend.ErrScheme):
		return b, problem.Usage(fmt.Errorf("--store: %w", err))
	case err != nil:
		return b, problem.Usage(fmt.Errorf("--store, --table: %w", err))
	}
	return b, nil
}
