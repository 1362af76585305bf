package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/secretfile"
)

// storeFlags select the store of segments.
type storeFlags struct {
	Store     string `help:"Store: jetstream, mysql://… or postgres://…" default:"jetstream" placeholder:"DSN"`
	StoreFile string `help:"File with the store's DSN." type:"path" placeholder:"FILE"`
	Table     string `help:"Leaf table in the database." default:"leaf_alloc"`
}

// backend parses the flags and the file. A command calls it once, before
// anything else.
func (f storeFlags) backend() (backend.Backend, error) { return f.backendOf(new(secretfile.Set)) }

// backendOf is backend for a command that serves.
func (f storeFlags) backendOf(files *secretfile.Set) (b backend.Backend, err error) {
	flag := "--store"
	if f.StoreFile != "" {
		flag = "--store-file"
		b, err = backend.ParseFile(files, f.StoreFile, f.Table)
	} else {
		b, err = backend.Parse(f.Store, f.Table)
	}
	if err == nil {
		return b, nil
	}
	var unread *os.PathError
	if !errors.Is(err, backend.ErrScheme) && !errors.As(err, &unread) {
		flag += ", --table"
	}
	return b, problem.Usage(fmt.Errorf("%s: %w", flag, err))
}
