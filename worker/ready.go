package worker

import "errors"

// Ready says why the process does not do all of its work right now, or nil. A store
// that is away is no reason, since workers live on memory, and neither is a worker ID that
// is not there yet, since it matters to snowflake requests only.
func (w *Worker) Ready() error {
	switch {
	case w.stopping.Load():
		return errors.New("stopping")
	case !w.cfg.Requests.IsConnected(), !w.cfg.Control.IsConnected():
		return errors.New("not connected to NATS")
	case w.segmentGroup.missing():
		return errors.New("not in the queue group: overloaded")
	case w.loader != nil && !w.loader.consuming.Load():
		return errors.New("load events are not consumed: JetStream is away")
	}
	return nil
}
