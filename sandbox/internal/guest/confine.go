//go:build linux

package guest

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox/internal/limits"
)

// confine holds this process, and all that it starts, to the limits, and closes this process
// to the others: nobody may read its memory or reach through its descriptors.
func confine(c *Config) error {
	if err := limits.Apply(c.Limits); err != nil {
		return fmt.Errorf("setting the desktop's limits: %w", err)
	}
	// The last, since much of its own /proc is closed to the process itself then.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("closing the guest to others: %w", err)
	}
	return nil
}

// watchLimits tells the host of limits that are reached.
func (g *guest) watchLimits(ctx context.Context) {
	limits.Watch(ctx, g.config.Limits, g.config.Grouped, func(e limits.Event) { g.host.Event(EventLimit, e) })
}
