package secretfile

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// OpenCertificate opens a certificate with its key, in PEM. The log warns of one
// that is expired or not yet valid, whenever it is loaded: it may still serve
// clients that do not check that, or get its time by a correction of the clock.
// use is a label of the metrics, see [Set.Collect].
func OpenCertificate(s *Set, name, use, certificate, key string) (*Files[*tls.Certificate], error) {
	pair, err := Open(s, name, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, err
		}
		if invalid := invalid(pair.Leaf, time.Now()); invalid != "" && s.Log != nil {
			s.Log.Warn(invalid, zap.String("what", name), zap.String("file", certificate),
				zap.Time("from", pair.Leaf.NotBefore), zap.Time("until", pair.Leaf.NotAfter))
		}
		return &pair, nil
	}, certificate, key)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.certificates == nil {
		s.certificates = make(map[string]*Files[*tls.Certificate])
	}
	s.certificates[use] = pair
	return pair, nil
}

// invalid returns what is wrong with a certificate at a time, or nothing.
func invalid(c *x509.Certificate, now time.Time) string {
	switch {
	case now.After(c.NotAfter):
		return "certificate expired"
	case now.Before(c.NotBefore):
		return "certificate not yet valid"
	}
	return ""
}

// Describe is part of prometheus.Collector.
func (s *Set) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect is part of prometheus.Collector. It sends the validity of certificates;
// Prometheus subtracts the time.
func (s *Set) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for use, pair := range s.certificates {
		leaf := pair.Last().Leaf
		ch <- certificateMetric("expires", "Time at which the certificate expires.", use, leaf.NotAfter)
		ch <- certificateMetric("valid_from", "Time from which the certificate is valid.", use, leaf.NotBefore)
	}
}

// certificateMetric is a metric of one certificate: sets of one process share a
// registry, which takes a description from one of them only.
func certificateMetric(name, help, use string, at time.Time) prometheus.Metric {
	desc := prometheus.NewDesc("idworker_certificate_"+name+"_timestamp_seconds", help, nil, prometheus.Labels{"use": use})
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(at.Unix()))
}
