package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The time limit of a bug's test, and of a package's tests without a bug.
const (
	quickTimeout = 2 * time.Minute
	slowTimeout  = 5 * time.Minute
)

// patience bounds a test's wait for a state that a bug prevents.
const patience = 30 * time.Second

type options struct {
	quick, keep bool
	want        *regexp.Regexp
	workers     int
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "leave out the slow ones")
	flag.BoolVar(&o.keep, "keep", false, "keep the copies of the tree, and say where they are")
	run := flag.String("run", "", "only those whose names match the regular expression")
	flag.IntVar(&o.workers, "p", 2, "how many at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if o.want, err = regexp.Compile(*run); err == nil {
		err = runAll(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// runAll tries all bugs, and returns an error unless all are found.
func runAll(ctx context.Context, o options) error {
	root, err := projectRoot(ctx)
	if err != nil {
		return err
	}
	mutants, err := readMutants(filepath.Join(root, "testing", "mutants", "patches"), o.want)
	if err != nil {
		return err
	}
	if o.quick {
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return m.slow })
	}
	if len(mutants) == 0 {
		return fmt.Errorf("no patches")
	}
	folder, err := os.MkdirTemp("", "idworker-mutants-")
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Println("copies:", folder)
	} else {
		defer func() { _ = os.RemoveAll(folder) }()
	}
	began := time.Now()
	caught, err := run(ctx, root, folder, mutants, max(1, min(o.workers, len(mutants))))
	if err != nil {
		return err
	}
	fmt.Printf("%d/%d found, in %v\n", caught, len(mutants), time.Since(began).Round(time.Second))
	if caught < len(mutants) {
		return fmt.Errorf("%d of %d were not found", len(mutants)-caught, len(mutants))
	}
	return nil
}

// projectRoot is the folder of the module.
func projectRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// run tries mutants in several copies of the tree, and returns how many were
// found.
func run(ctx context.Context, root, folder string, mutants []mutant, workers int) (caught int, err error) {
	var trees []tree
	for i := range workers {
		t, err := copyTree(ctx, root, filepath.Join(folder, strconv.Itoa(i)))
		if err != nil {
			return 0, err
		}
		trees = append(trees, t)
	}
	if err := checkGreen(ctx, trees, mutants); err != nil {
		return 0, err
	}
	var mu sync.Mutex
	inTrees(trees, mutants, func(t tree, m mutant) {
		began := time.Now()
		v, text := t.try(ctx, m)
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%-16s %5.1fs  %-28s %s (%s)\n", v, time.Since(began).Seconds(), m.name, m.bug, m.test)
		if v == found {
			caught++
		} else if text != "" {
			fmt.Println(tail(text, 15))
		}
	})
	return caught, ctx.Err()
}

// inTrees does something for each item, in as many at a time as there are
// trees.
func inTrees[T any](trees []tree, items []T, do func(tree, T)) {
	queue := make(chan T)
	var all sync.WaitGroup
	for _, t := range trees {
		all.Go(func() {
			for item := range queue {
				do(t, item)
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	all.Wait()
}

// group holds the tests of a package that mutants name.
type group struct {
	pkg   string
	tests []string
}

// checkGreen makes sure that all tests pass while no bug is planted: a test
// that fails anyhow finds nothing.
func checkGreen(ctx context.Context, trees []tree, mutants []mutant) error {
	var mu sync.Mutex
	var failed []string
	groups := groupTests(mutants)
	inTrees(trees, groups, func(t tree, g group) {
		output, err := t.test(ctx, g.pkg, onlyTests(g.tests...), 0, slowTimeout)
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, g.pkg)
		fmt.Printf("%s: tests of %s, and no bug was planted\n%s\n", failsAnyhow, g.pkg, tail(output, 30))
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("tests fail although no bug is planted: %s", strings.Join(failed, ", "))
	}
	fmt.Printf("the tests of %d packages pass without a bug\n", len(groups))
	return nil
}

func groupTests(mutants []mutant) (groups []group) {
	for _, m := range mutants {
		at := slices.IndexFunc(groups, func(g group) bool { return g.pkg == m.pkg })
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{pkg: m.pkg})
		}
		test, _, _ := strings.Cut(m.test, "/")
		if !slices.Contains(groups[at].tests, test) {
			groups[at].tests = append(groups[at].tests, test)
		}
	}
	return groups
}
