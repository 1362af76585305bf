package doctor

import (
	"errors"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/store"
)

// What a doctor finds wrong with a server or a database is no reason for a process not to
// serve, but it is said once when the process starts.

// WarnOfSettings logs once what a crash of the database's machine could do to IDs, given what
// is wrong with its settings. A database that does not answer has been logged before; when it
// comes, the doctor can be asked.
func WarnOfSettings(wrong error, log *zap.Logger) {
	for _, err := range problem.Parts(wrong) {
		var unsafe *store.UnsafeSettingError
		switch {
		case errors.As(err, &unsafe):
			log.Warn("the database acknowledges commits before they are on disk: after a crash IDs can be handed out twice",
				zap.String("setting", unsafe.Setting), zap.String("value", unsafe.Value), zap.String("want", unsafe.Want))
		case errors.Is(err, store.ErrSettingUnknown):
			log.Warn("the database does not tell whether every commit is on disk before it is acknowledged, see Durability in docs/databases.md", zap.Error(err))
		}
	}
}
