package nemesis

import (
	"strconv"
	"strings"
	"time"

	"github.com/idworker/idworker/testing/process"
)

// nextIDs is each tag's next ID in the store, by `idworker tag export`.
func (r *Run) nextIDs() map[string]int64 {
	next := make(map[string]int64)
	p, err := process.Settings{Binary: r.binaries.plain, Env: r.storeEnv("command")}.Launch("tag", "export", "--server", strings.Join(r.cluster.urls(), ","))
	if err != nil {
		r.checker.Violation("tag export: %v", err)
		return nil
	}
	select {
	case <-p.Ended:
	case <-time.After(time.Minute):
		p.Kill()
	}
	for line := range strings.Lines(p.Stdout.String()) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		if n, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
			next[fields[0]] = n
		}
	}
	if len(next) == 0 {
		r.checker.Violation("tag export says nothing:\n%s%s", p.Stdout.Tail(), p.Stderr.Tail())
	}
	return next
}
