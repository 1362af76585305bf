package monitoring

import (
	"testing"
)

// TestLab: an alert becomes pending by its fault, fires after its time, and ends by the cure.
func TestLab(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	loader := s.ready("loader", "serve", "--role", "loader", "--new")
	s.ready("worker", "serve", "--role", "worker")
	s.scrape()
	if v := s.query("idworker_runway_seconds"); len(v) != 1 {
		t.Errorf("the worker's runway: %v", v)
	}
	if alerts := s.alerts(); len(alerts) > 0 {
		t.Errorf("at first: %+v", alerts)
	}
	loader.Kill()
	s.scrape()
	if v := s.query("up == 0"); len(v) != 1 {
		t.Errorf("the killed loader: %v", v)
	}
	if alerts := s.alerts(); len(alerts) != 1 || alerts[0].Name != "IdworkerNoLoaders" || alerts[0].Firing {
		t.Errorf("without a loader: %+v", alerts)
	}
	s.until("it fires", func() bool { return s.isFiring("IdworkerNoLoaders") })
	s.forget(loader.http)
	s.ready("loader", "serve", "--role", "loader")
	s.until("it ends", func() bool { return len(s.alerts()) == 0 })
}
