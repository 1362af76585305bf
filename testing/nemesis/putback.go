package nemesis

import (
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
)

// raisedBy is more than is granted between a backup and its restore.
const raisedBy = "1000000000"

// beginPutBack takes a backup of the register. Mending restores it, so that the
// register lacks all later grants, and raises all tags, as an administrator
// does.
func (r *Run) beginPutBack() (note string, mend func() error, err error) {
	stream := kv.StreamName(register.BucketName(messages.DefaultPrefix))
	backup, err := natstest.TrySnapshot(r.cluster.conn, stream)
	if err != nil {
		return "", nil, err
	}
	return "", func() error {
		backup.Restore(r.T, r.cluster.conn)
		return waitFor(patient, "all tags to be raised", func() error {
			return r.idworker("tag", "raise", "--all", "--by", raisedBy)
		})
	}, nil
}
