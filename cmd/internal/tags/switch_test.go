package tags_test

import (
	"strings"
	"testing"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/tier"
)

// TestSwitchStore: an installation counts in a database, and then in JetStream
// again, with the tags that it had, in their orders, and none of them lower.
func TestSwitchStore(t *testing.T) {
	tier.All(t)
	t.Parallel()
	db := dbtest.Postgres(t)
	db.Exec(t, "CREATE TABLE leaf_alloc (biz_tag VARCHAR(128) NOT NULL PRIMARY KEY, max_id BIGINT NOT NULL DEFAULT 1, step INT NOT NULL)")
	database, err := backend.Parse(db.DSN(), "leaf_alloc")
	must(t, err)
	i := newInstallation(t)
	jetStream := i.source
	must(t, i.importText(exported))
	for range 2 {
		for _, to := range []backend.Backend{database, jetStream} {
			all, err := tags.Read(strings.NewReader(i.export()))
			must(t, err)
			must(t, tags.SwitchStore(t.Context(), i.js, prefix, to, all, func(tags.Raised) {}))
			i.source = to
			i.open()
			if got := i.export(); got != exported {
				t.Errorf("in %s it is\n%s", to.Name(), got)
			}
		}
	}
}
