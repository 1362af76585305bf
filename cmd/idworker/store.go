package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/problem"
)

// storeFlags say where segments come from.
type storeFlags struct {
	Store     string `help:"Where segments come from: jetstream, mysql://user:password@tcp(host:port)/db or postgres://…; one with a password is taken from the environment variable or --store-file only." default:"jetstream" placeholder:"DSN"`
	StoreFile string `help:"File with the DSN, instead of --store." type:"path" placeholder:"FILE"`
	Table     string `help:"Leaf's table in the database." default:"leaf_alloc"`
}

// backend parses the flags, and the file if there is one. A command does so once, before
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
	case errors.Is(err, backend.ErrScheme):
		return b, problem.Usage(fmt.Errorf("--store: %w", err))
	case err != nil:
		return b, problem.Usage(fmt.Errorf("--store, --table: %w", err))
	}
	return b, nil
}
