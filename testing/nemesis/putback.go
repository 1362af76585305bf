package nemesis

import (
	"strings"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
)

// raisedBy is more than is granted between a backup and its restore.
const raisedBy = "1000000000"

// wrongClock is in the refusal of a raise by the time.
const wrongClock = "cannot raise by the time"

// beginPutBack takes a backup of the register. Mending restores it, so that the
// register lacks all later grants, and raises all tags, as an administrator
// does: by the time, or by a number if that is refused because a clock is wrong.
func (r *Run) beginPutBack() (note string, mend func() error, err error) {
	stream := kv.StreamName(register.BucketName(messages.DefaultPrefix))
	backup, err := natstest.TrySnapshot(r.cluster.conn, stream)
	if err != nil {
		return "", nil, err
	}
	return "", func() error {
		backup.Restore(r.T, r.cluster.conn)
		return natstest.Await(patient, "all tags to be raised", func() error {
			_, err := r.idworker("tag", "raise", "--all", "--yes")
			if err != nil && strings.Contains(err.Error(), wrongClock) {
				_, err = r.idworker("tag", "raise", "--all", "--yes", "--by", raisedBy)
			}
			return err
		})
	}, nil
}
