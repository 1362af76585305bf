package nemesis

import (
	"context"
	"errors"
	"strings"
)

// errNoPower: the power of the servers cannot be cut.
var errNoPower = errors.New("not done: no right to mount ext4 in a loop device, or no such device")

// beginPowerCut cuts the power of servers: what is not on their disks is lost.
func (r *Run) beginPowerCut(ctx context.Context, f Fault) (mend func() error, err error) {
	if !r.cluster.ext4 {
		return nil, errNoPower
	}
	if err := r.awaitGrants(ctx); err != nil {
		return nil, err
	}
	names := strings.Fields(f.Victim)
	for _, server := range names {
		r.programs[server].Pause() // so that it acknowledges nothing after the cut
	}
	for _, server := range names {
		failed := cutPower(r.cluster.disk(server))
		if failed == nil {
			r.figures.bite(f, func(b *bite) { b.files++ })
		}
		err = errors.Join(err, failed)
	}
	for _, server := range names {
		r.programs[server].Kill()
	}
	return func() (err error) {
		for _, server := range names {
			disk := r.cluster.disk(server)
			failed := unmountDisk(disk)
			if failed == nil {
				failed = mountImage(r.cluster.image(server), disk)
			}
			if failed == nil {
				r.programs[server].Release()
			}
			err = errors.Join(err, failed)
		}
		return err
	}, err
}
