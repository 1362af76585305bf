// Command install lists what the tests of a tier leave out for want of a program.
// With -install it installs these programs where it can; with -found it prints
// the programs found.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/tier"
)

func main() {
	install := flag.Bool("install", false, "install what is missing")
	found := flag.Bool("found", false, "print what is there, on one line")
	flag.Parse()
	if *found {
		fmt.Println(deps.Found())
		return
	}
	if *install {
		for _, n := range deps.All {
			if err := n.Install(); err != nil {
				fmt.Fprintf(os.Stderr, "not installed: %s: %v\n", n.Name, err)
			}
		}
		return
	}
	for _, n := range deps.All {
		if line := n.LeftOut(); line != "" {
			fmt.Println(line)
		}
	}
	if tier.IsAll() {
		if deps.History() != nil {
			fmt.Println(deps.NoHistory)
		}
		if out, err := exec.Command("go", "env", "CGO_ENABLED").Output(); err == nil && strings.TrimSpace(string(out)) != "1" {
			fmt.Println("left out: the race detector (no C compiler)")
		}
	}
}
