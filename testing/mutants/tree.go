package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tree is a copy of the project in which bugs are planted.
type tree struct {
	root string
}

// copyTree copies all files that git tracks or would add, with local changes.
func copyTree(ctx context.Context, from, to string) (tree, error) {
	list := exec.CommandContext(ctx, "git", "-C", from, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := list.Output()
	if err != nil {
		return tree{}, fmt.Errorf("list the files of %s: %w", from, err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		err := copyFile(filepath.Join(from, name), filepath.Join(to, name))
		if err != nil && !os.IsNotExist(err) { // deleted, not committed
			return tree{}, err
		}
	}
	// So that git apply takes the copy for a tree of its own, wherever it lies.
	init := exec.CommandContext(ctx, "git", "-C", to, "init", "--quiet")
	if out, err := init.CombinedOutput(); err != nil {
		return tree{}, fmt.Errorf("git init: %w: %s", err, out)
	}
	return tree{to}, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// apply plants a bug, or removes it. Lines may have moved since the patch was
// made; the changed lines, and a line before and after, must match.
func (t tree) apply(ctx context.Context, m mutant, flags ...string) error {
	args := append([]string{"-C", t.root, "apply", "--whitespace=nowarn"}, flags...)
	out, err := exec.CommandContext(ctx, "git", append(args, m.path)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// forgetFailures removes the failing examples that rapid stores: the next bug
// must not be found by an example from this bug.
func (t tree) forgetFailures() error {
	kept, err := filepath.Glob(filepath.Join(t.root, "*", "testdata", "rapid"))
	for _, folder := range kept {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

// test runs tests of a package and returns their output.
func (t tree) test(ctx context.Context, pkg, run string, count int, timeout time.Duration) (output string, err error) {
	args := []string{"test", "-trimpath", "-vet=off", "-timeout", timeout.String(), "-run", run}
	if count > 0 { // 0: cached results suffice
		args = append(args, fmt.Sprintf("-count=%d", count), "-failfast")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-v", pkg)...)
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), "IDWORKER_PATIENCE="+patience.String(), "IDWORKER_TESTS=all") // some tests are left to make test-all
	out, err := cmd.CombinedOutput()
	return string(out), err
}
