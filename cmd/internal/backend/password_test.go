package backend_test

import (
	"testing"

	"github.com/idworker/idworker/cmd/internal/backend"
)

func TestHasPassword(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]bool{
		"jetstream":                           false,
		"":                                    false,
		"mysql://":                            false,
		"mysql://tcp(127.0.0.1:3306)/leaf":    false,
		"mysql://u@tcp(127.0.0.1:3306)/leaf":  false,
		"mysql://u:@tcp(127.0.0.1:3306)/leaf": false,
		"mysql://u@unix(/run/mysqld.sock)/leaf?tls=no":     false,
		"mysql://u:p@tcp(127.0.0.1:3306)/leaf":             true,
		"mysql://u:p@/leaf":                                true,
		"mysql://u:p/q@r@tcp(127.0.0.1:3306)/leaf":         true,
		"mysql://u@example.org:p@tcp(127.0.0.1:3306)/leaf": true,
		"mysql://u:p@tcp(127.0.0.1)":                       true,
		"postgres://127.0.0.1:5432/leaf":                   false,
		"postgres://u@127.0.0.1:5432/leaf":                 false,
		"postgres:///leaf?host=/run&user=u":                false,
		"postgres://u:p@127.0.0.1:5432/leaf":               true,
		"postgresql://u:p@127.0.0.1/leaf":                  true,
		"postgres://127.0.0.1/leaf?password=p":             true,
		"postgres://127.0.0.1/leaf?user=u&sslpassword=p":   true,
		"postgres://u:p#@127.0.0.1/leaf":                   true,
		"postgres://u:p/q@127.0.0.1/leaf":                  true,
		"oracle://u:p@127.0.0.1/leaf":                      true,
	} {
		if backend.HasPassword(dsn) != want {
			t.Errorf("%s: want %v", dsn, want)
		}
	}
}
