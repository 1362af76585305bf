package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// The bars of a million tags, which SOAK=1 sets, on two processors.
const (
	restoreSeconds = 120
	restoreMB      = 350
	raiseSeconds   = 60
)

// BenchmarkRestore loses a register of many tags, restores it from a backup, and
// raises all tags, by the real command.
func BenchmarkRestore(b *testing.B) {
	tags := tier.Pick(20_000, 1_000_000)
	binary, err := process.Build(b.TempDir(), "idworker", process.Command)
	if err != nil {
		b.Fatal(err)
	}
	srv, backup := natstest.Start(b), filepath.Join(b.TempDir(), "backup")
	js := natstest.JetStream(b, srv.Connect(b))
	run := func(stdin string, args ...string) (seconds, mb float64) {
		b.Helper()
		began := time.Now()
		p, err := process.Program{Binary: binary, Stdin: stdin, Within: time.Hour}.Launch(append(args, "--server", srv.URL())...)
		if err != nil {
			b.Fatal(err)
		}
		for mb = peak(p, mb); !p.HasEnded(); mb = peak(p, mb) {
			time.Sleep(10 * time.Millisecond)
		}
		if !p.Cmd.ProcessState.Success() {
			b.Fatalf("%v: %v\n%s", args, p.Cmd.ProcessState, p.Stderr.String())
		}
		return time.Since(began).Seconds(), mb
	}
	add := func(what, unit string, figure float64, bar bar) {
		table.add(row{what: strconv.Itoa(tags) + " tags: " + what, unit: unit, subject: figure, bar: bar})
	}
	var list strings.Builder
	for i := range tags {
		list.WriteString("tag." + strconv.Itoa(i) + " 1000 1001\n")
	}
	run("", "provision", "--part", "ids")
	seconds, _ := run(list.String(), "tag", "import")
	add("import", "s", seconds, bar{})
	seconds, mb := run("", "backup", backup)
	add("backup", "s", seconds, bar{})
	add("memory of backup", "MB", mb, bar{})
	if err := js.DeleteStream(b.Context(), "KV_ids_register"); err != nil {
		b.Fatal(err)
	}
	seconds, mb = run("", "restore", backup, "--yes")
	add("restore", "s", seconds, tier.Pick(bar{}, atMost(restoreSeconds)))
	add("memory of restore", "MB", mb, tier.Pick(bar{}, atMost(restoreMB)))
	seconds, mb = run("", "tag", "raise", "--all", "--yes")
	add("raise", "s", seconds, tier.Pick(bar{}, atMost(raiseSeconds)))
	add("memory of raise", "MB", mb, bar{})
	b.ReportMetric(0, "ns/op")
}

// peak returns the most memory that a process has had, in MB, or what is known
// already if it has ended. The system's account of an ended process counts the
// memory of this one, too, in which the NATS server runs.
func peak(p *process.Running, known float64) float64 {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/status") // Linux alone has it
	_, most, _ := strings.Cut(string(status), "VmHWM:")
	kb, _ := strconv.ParseFloat(strings.Fields(most + " 0")[0], 64)
	return max(known, kb/1024)
}
