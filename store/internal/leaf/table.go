package leaf

import (
	"fmt"
	"regexp"
	"strings"
)

// identifier matches the names that every server accepts without surprises.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseTable splits the name of a table, optionally qualified by a schema, into its
// parts, each an identifier of at most maxLen bytes: PostgreSQL silently cuts longer
// ones off, and would find another table.
func ParseTable(name string, maxLen int) ([]string, error) {
	parts := strings.Split(name, ".")
	if len(parts) > 2 {
		return nil, fmt.Errorf("malformed table name %q: more than schema.table", name)
	}
	for _, part := range parts {
		if !identifier.MatchString(part) {
			return nil, fmt.Errorf("malformed table name %q: allowed are table and schema.table, of A-Z a-z 0-9 _, not starting with a digit", name)
		}
		if len(part) > maxLen {
			return nil, fmt.Errorf("malformed table name %q: more than %d bytes", name, maxLen)
		}
	}
	return parts, nil
}
