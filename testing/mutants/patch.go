package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// mutant is a bug that can be planted.
type mutant struct {
	name    string // of its file
	path    string
	promise string
	part    string
	bug     string
	pkg     string
	test    string
	slow    bool
	count   int
}

// readMutants reads the patches of a folder whose names match, in the order of
// their names.
func readMutants(folder string, want *regexp.Regexp) (all []mutant, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		m, err := readMutant(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if want.MatchString(m.name) {
			all = append(all, m)
		}
	}
	return all, nil
}

// readMutant reads the header of a patch: everything before the diff.
func readMutant(path string) (m mutant, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer func() { _ = f.Close() }()
	fields := make(map[string]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "diff ") {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok {
			fields[key] = strings.TrimSpace(value)
		}
	}
	if err := lines.Err(); err != nil {
		return m, err
	}
	m = mutant{
		name: strings.TrimSuffix(filepath.Base(path), ".patch"), path: path,
		promise: fields["promise"], part: fields["part"], bug: fields["bug"], pkg: fields["package"], test: fields["test"],
		slow: fields["slow"] == "yes",
	}
	if m.count, err = strconv.Atoi(cmp.Or(fields["count"], "1")); err != nil {
		return m, fmt.Errorf("count: %w", err)
	}
	for _, key := range []string{"promise", "part", "bug", "package", "test"} {
		if fields[key] == "" {
			return m, fmt.Errorf("the header has no %q", key)
		}
	}
	return m, nil
}
