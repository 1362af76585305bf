package secretfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/testing/tlstest"
)

// TestCertificateThatIsNotValid: the log warns when an expired certificate, or
// one that is not yet valid, is loaded and loaded again. The metrics have the
// times of the certificate that is in force.
func TestCertificateThatIsNotValid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(from, until time.Time) {
		t.Helper()
		public, private := tlstest.Certificate(t, 1, from, until)
		if err := errors.Join(os.WriteFile(key, []byte(private), 0o600), os.WriteFile(certificate, []byte(public), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	core, logs := observer.New(zap.WarnLevel)
	set := &secretfile.Set{Log: zap.New(core)}
	registry := prometheus.NewPedanticRegistry()
	now := time.Now().Truncate(time.Second)
	for i, c := range []struct {
		from, until time.Duration
		want        string
	}{
		{-2 * time.Hour, -time.Hour, "certificate expired"},
		{-time.Hour, time.Hour, ""},
		{time.Hour, 2 * time.Hour, "certificate not yet valid"},
	} {
		write(now.Add(c.from), now.Add(c.until))
		if i == 0 {
			if _, err := secretfile.OpenCertificate(set, "certificate", "api", certificate, key); err != nil {
				t.Fatal(err)
			}
			registry.MustRegister(set)
		} else {
			set.Reread()
			set.Reread()
		}
		said := ""
		for _, entry := range logs.TakeAll() {
			said += entry.Message
		}
		if said != c.want {
			t.Errorf("logged %q, want %q", said, c.want)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]float64)
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		if got["idworker_certificate_expires_timestamp_seconds"] != float64(now.Add(c.until).Unix()) ||
			got["idworker_certificate_valid_from_timestamp_seconds"] != float64(now.Add(c.from).Unix()) {
			t.Errorf("%v, want from %v until %v", got, now.Add(c.from).Unix(), now.Add(c.until).Unix())
		}
	}
}
