package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
)

const layoutsPage = "../../docs/layouts.md"

// TestPageOfLayouts: its table is that of the layouts that have a name, and decode prints what it shows.
func TestPageOfLayouts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(layoutsPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range snowflake.LayoutNames() {
		l, err := snowflake.ParseLayout(name)
		if err != nil {
			t.Fatal(err)
		}
		if row := rowOf(name, l); !strings.Contains(string(page), row) {
			t.Errorf("%s lacks the row\n%s", layoutsPage, row)
		}
	}
	ran := 0
	for _, block := range strings.Split(string(page), "```") {
		for _, shown := range strings.Split("\n"+block, "\n$ idworker decode ")[1:] {
			ran++
			args, want, _ := strings.Cut(shown, "\n")
			r := command(t, append([]string{"decode"}, strings.Fields(args)...)...)
			if got := r.stdout + r.stderr; r.code != 0 || strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("idworker decode %s: exit code %d\n%s%s shows\n%s", args, r.code, got, layoutsPage, want)
			}
		}
	}
	if ran == 0 {
		t.Errorf("%s shows no decode", layoutsPage)
	}
}

// rowOf is a layout's row in the table.
func rowOf(name string, l snowflake.Layout) string {
	spec := l.Spec()
	parts := []string{fmt.Sprintf("%d time (%v)", spec.Time, spec.Unit)}
	worker, workers := []string{fmt.Sprintf("%d worker", spec.Worker)}, thousands(l.MaxWorkerID()+1)
	if spec.Datacenter > 0 {
		worker = append([]string{fmt.Sprintf("%d datacenter", spec.Datacenter)}, worker...)
		workers = thousands(l.MaxDatacenter()+1) + " × " + workers
	}
	sequence := fmt.Sprintf("%d sequence", spec.Sequence)
	if spec.SequenceFirst {
		parts = append(append(parts, sequence), worker...)
	} else {
		parts = append(append(parts, worker...), sequence)
	}
	number := "no"
	if spec.Time+spec.Datacenter+spec.Worker+spec.Sequence <= 53 {
		number = "yes"
	}
	rate := (l.MaxSequence() + 1) * int64(time.Second/spec.Unit)
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s | %s |", name, strings.Join(parts, ", "),
		spec.Epoch.Format(time.DateOnly), l.End().Format(time.DateOnly), workers, thousands(rate), number)
}

// thousands is a number with a comma before every three digits.
func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
