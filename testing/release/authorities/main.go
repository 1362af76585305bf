// Command authorities prints the certificate authorities of a release's container
// image, as PEM. docs/deploy/image.sh runs it.
package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	bundle, err := authorities()
	if err == nil {
		_, err = os.Stdout.Write(bundle)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "authorities:", err)
		os.Exit(1)
	}
}

// The certificate authorities that Mozilla trusts, from a module of the Go
// project. A release has the version that is current then:
//
//	go list -m golang.org/x/crypto/x509roots/fallback@latest
const (
	rootsModule = "golang.org/x/crypto/x509roots/fallback@v0.0.0-20261030153154-30a33513ff6d"
	rootsSum    = "h1:5NBkmd8MXirajj6AAEpi4HFVJnVkBNPTL1ggYAKqaws="
)

// authorities returns the certificate authorities as PEM. idworker needs them
// for TLS to NATS servers and databases.
//
// The module is only downloaded: a dependency in go.mod could get into the
// binary, which should trust what its host trusts.
func authorities() ([]byte, error) {
	cmd := exec.Command("go", "mod", "download", "-json", rootsModule)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var module struct{ Dir, Sum, Error string }
	if parsed := json.Unmarshal(out, &module); parsed != nil || module.Error != "" {
		return nil, errors.Join(err, parsed, errors.New(module.Error))
	}
	if module.Sum != rootsSum {
		return nil, fmt.Errorf("%s has the checksum %s, expected %s", rootsModule, module.Sum, rootsSum)
	}
	der, err := os.ReadFile(filepath.Join(module.Dir, "bundle", "bundle.der"))
	if err != nil {
		return nil, err
	}
	certificates, err := x509.ParseCertificates(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rootsModule, err)
	}
	var bundle bytes.Buffer
	for _, c := range certificates {
		fmt.Fprintf(&bundle, "# %s\n", c.Subject)
		if err := pem.Encode(&bundle, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			return nil, err
		}
	}
	return bundle.Bytes(), nil
}
