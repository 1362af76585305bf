package nemesis

import "github.com/idworker/idworker/testing/proxy"

// write is a text that goes by on a connection where a step of a protocol
// begins, or its answer.
type write struct {
	to   proxy.Direction
	text string
}

// writes are the steps of each role, in the order of the names of the cast.
var writes = map[string][]write{
	"worker3": {
		{proxy.ToServer, "ids.load."},        // a load event
		{proxy.ToClient, "ids.grant."},       // a grant
		{proxy.ToServer, "ids.reserve"},      // a load of a strict tag, or of an unknown tag
		{proxy.ToServer, "$KV.ids_clock."},   // a fence
		{proxy.ToServer, "$KV.ids_workers."}, // a lease of a worker ID
		{proxy.ToClient, "ids.segment."},     // a request
	},
	"loader2": {
		{proxy.ToServer, "ids.grant."},        // reserved, and not granted
		{proxy.ToServer, "$KV.ids_register."}, // about to be granted; with a database, reserved in the row
		{proxy.ToClient, "ids.load."},         // a load event
		{proxy.ToServer, "$JS.ACK.IDS_LOAD."}, // granted, and the load event not acknowledged
		{proxy.ToClient, `"stream":"KV_ids_`}, // the answer to a write
	},
	"enricher2": {
		{proxy.ToServer, "Nats-Batch-Commit"}, // a plan saved, and a batch not committed
		{proxy.ToClient, `"batch":`},          // committed, and not known
		{proxy.ToServer, "$KV.ids_enrich."},   // the record
		{proxy.ToServer, "ids.segment.event"},
		{proxy.ToServer, "$FI"},
	},
}

// beginWrite has a process cut off at a write, or killed there. It is let go,
// or started again, when the fault is over.
func (r *Run) beginWrite(f Fault) (note string, mend func() error, err error) {
	c, p := r.cutters[f.Victim], r.programs[f.Victim]
	at := writes[f.Victim][f.Size%len(writes[f.Victim])]
	hit, over := c.Freeze(at.to, at.text), make(chan struct{})
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
