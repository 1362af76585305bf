package peers

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake"

	"github.com/idworker/idworker/snowflake"
)

const (
	rounds = 9
	round  = 200 * time.Millisecond
)

// BenchmarkNext has all three make IDs as fast as they can, in turns, so that a
// disturbance of the host affects them all. bwmarrin's and idworker's layouts
// have room for 4,096,000 IDs a second, sonyflake's for 25,600.
func BenchmarkNext(b *testing.B) {
	for _, goroutines := range slices.Compact([]int{1, runtime.GOMAXPROCS(0)}) {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) { benchmarkNext(b, goroutines) })
	}
}

func benchmarkNext(b *testing.B, goroutines int) {
	makers := []maker{idworkers(b), bwmarrins(b), sonyflakes(b)}
	rates := make([][]float64, len(makers))
	for n := range rounds {
		for i := range makers { // each round begins with another
			at := (n + i) % len(makers)
			rates[at] = append(rates[at], rate(b, makers[at], goroutines))
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nNEXT, %d GOROUTINES\tIDs/s\tOF THE LAYOUT'S\t× bwmarrin\n", goroutines)
	for i, m := range makers {
		var ratios []float64
		for n := range rounds {
			ratios = append(ratios, rates[i][n]/rates[1][n])
		}
		got := median(slices.Clone(rates[i]))
		fmt.Fprintf(w, "%s\t%.0f\t%.1f %%\t%.2f\n", m.name, got, 100*got/m.room, median(ratios))
		b.ReportMetric(got, m.name+"-ids/s")
	}
	_ = w.Flush()
	b.ReportMetric(0, "ns/op")
}

// maker is a library.
type maker struct {
	name string
	room float64 // IDs a second that the layout has room for
	next func() (ok bool, err error)

	// drain uses up IDs that the library has saved, if it saves any.
	drain func() error
}

// rate is how many IDs a second the goroutines get out of it together.
func rate(b *testing.B, m maker, goroutines int) float64 {
	if err := m.drain(); err != nil {
		b.Fatal(err)
	}
	counts := make([]int, goroutines)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range goroutines {
		wg.Go(func() {
			n := 0
			for time.Since(start) < round {
				for range 100 {
					ok, err := m.next()
					if err != nil {
						b.Error(err)
						return
					}
					if !ok { // none for now
						time.Sleep(100 * time.Microsecond)
						break
					}
					n++
				}
			}
			counts[i] = n
		})
	}
	wg.Wait()
	took := time.Since(start).Seconds()
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / took
}

// idworkers does not wait when there is no ID for now, but reports it.
func idworkers(b *testing.B) maker {
	g, err := snowflake.New(snowflake.Settings{Layout: snowflake.Default(), Worker: 1, Fence: snowflake.Fence{Hi: snowflake.Forever}})
	if err != nil {
		b.Fatal(err)
	}
	next := func() (bool, error) {
		_, err := g.Next()
		if errors.Is(err, snowflake.ErrAhead) {
			return false, nil
		}
		return err == nil, err
	}
	return maker{"idworker", 4_096_000, next, func() error {
		for {
			if ok, err := next(); !ok {
				return err
			}
		}
	}}
}

// bwmarrins waits inside the library.
func bwmarrins(b *testing.B) maker {
	node, err := bwmarrin.NewNode(1)
	if err != nil {
		b.Fatal(err)
	}
	next := func() (bool, error) { node.Generate(); return true, nil }
	return maker{"bwmarrin", 4_096_000, next, func() error { return nil }}
}

// sonyflakes waits inside the library.
func sonyflakes(b *testing.B) maker {
	sf, err := sonyflake.New(sonyflake.Settings{MachineID: func() (uint16, error) { return 1, nil }})
	if err != nil {
		b.Fatal(err)
	}
	next := func() (bool, error) { _, err := sf.NextID(); return err == nil, err }
	return maker{"sonyflake", 25_600, next, func() error { return nil }}
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
