//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/loupe-tools/loupe/sandbox/internal/limits"
)

// inside is the limits as the parts that hold them know them.
func (l Limits) inside() limits.Limits {
	return limits.Limits{Memory: l.Memory, Disk: l.Disk, Processes: l.Processes, Files: l.Files}
}

// makeGroup makes the desktop's control group, where the machine lets us. Where it does not,
// the guest measures.
func (d *Desktop) makeGroup() error {
	name := d.name
	if name == "" {
		name = fmt.Sprintf("d%d", rand.Uint32())
	}
	group, err := limits.NewGroup(name, d.own.plan.Limits.inside())
	if errors.Is(err, limits.ErrNoCgroup) {
		d.log.Debug("the desktop has no control group, so its use is measured from inside", "error", err)
		return nil
	}
	d.own.group = group
	return err
}

// joinGroup moves the desktop's processes into its control group, before they start anything.
func (d *Desktop) joinGroup() error {
	if d.own.group == nil {
		return nil
	}
	return d.own.group.Add(d.own.process.cmd.Process.Pid)
}

// limited tells of a limit that was reached, and ends the desktop where it is of no use any
// more.
func (d *Desktop) limited(e limits.Event) {
	d.own.events.add(Event{Kind: EventLimit, Limit: e.Limit, Text: e.Text})
	if e.Fatal {
		d.fail(&sentence{kind: ErrLimit, text: "the desktop was ended: " + e.Text})
	}
}
