package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestManualIsWellFormed: groff, which man shows pages with, has no complaint.
func TestManualIsWellFormed(t *testing.T) {
	t.Parallel()
	var page, complaints bytes.Buffer
	if err := writeManual(&page, newModel(), version); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("no groff here")
	}
	groff := exec.Command("groff", "-man", "-ww", "-Tutf8")
	groff.Stdin, groff.Stderr = strings.NewReader(page.String()), &complaints
	if out, err := groff.Output(); err != nil || complaints.Len() > 0 || len(out) < page.Len()/2 {
		t.Fatalf("%v: %d characters; %s", err, len(out), &complaints)
	}
}
