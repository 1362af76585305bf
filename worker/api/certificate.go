package api

import "crypto/tls"

// readCertificate reads a certificate and its key.
func readCertificate(contents [][]byte) (tls.Certificate, error) {
	return tls.X509KeyPair(contents[0], contents[1])
}

// tlsConfig has each connection get the certificate that was read last.
func tlsConfig(certificate *watched[tls.Certificate]) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate.current.Load(), nil },
	}
}
