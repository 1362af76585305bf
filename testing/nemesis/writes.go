package nemesis

import (
	"github.com/idworker/idworker/testing/cutter"
)

// write is a text that goes by on a connection where a step of a protocol
// begins, or its answer.
type write struct {
	server bool // the server sends it
	text   string
}

// writes are the steps of each role, in the order of the names of the cast.
var writes = map[string][]write{
	"worker3": {
		{false, "ids.load."},        // a load event
		{true, "ids.grant."},        // a grant
		{false, "ids.reserve"},      // a load of a strict tag, or of an unknown tag
		{false, "$KV.ids_clock."},   // a fence
		{false, "$KV.ids_workers."}, // a lease of a worker ID
		{true, "ids.segment."},      // a request
	},
	"loader2": {
		{false, "ids.grant."},        // reserved, and not granted
		{false, "$KV.ids_register."}, // about to be granted; with a database, reserved in the row
		{true, "ids.load."},          // a load event
		{false, "$JS.ACK.IDS_LOAD."}, // granted, and the load event not acknowledged
		{true, `"stream":"KV_ids_`},  // the answer to a write
	},
	"enricher2": {
		{false, "Nats-Batch-Commit"}, // a plan saved, and a batch not committed
		{true, `"batch":`},           // committed, and not known
		{false, "$KV.ids_enrich."},   // the record
		{false, "ids.segment.event"},
		{false, "$FI"},
	},
}

// startCutters puts cutters in front of the links of some processes.
func (r *Run) startCutters() error {
	r.cutters = make(map[string]*cutter.Cutter)
	for _, name := range cut {
		c, err := cutter.Start(r.urls[name]...)
		if err != nil {
			return err
		}
		r.cutters[name], r.urls[name] = c, []string{c.URL()}
	}
	return nil
}

// beginWrite has a process cut off at a write, or killed there. It is let go,
// or started again, when the fault is over.
func (r *Run) beginWrite(f Fault) (note string, mend func() error, err error) {
	c, p := r.cutters[f.Victim], r.programs[f.Victim]
	at := writes[f.Victim][f.Size%len(writes[f.Victim])]
	hit, over := c.Arm(at.server, at.text), make(chan struct{})
	killed := make(chan bool, 1)
	go func() {
		select {
		case <-hit:
			if f.Kind == "killed at a write" {
				p.Kill()
				killed <- true
				return
			}
		case <-over:
		}
		killed <- false
	}()
	return at.text, func() error {
		close(over)
		was := <-killed
		c.Arm(false, "")
		c.Release()
		if was {
			p.Release()
		}
		select {
		case <-hit:
			return nil
		default:
			return errNotSeen
		}
	}, nil
}
