//go:build linux

package sandbox

import (
	"context"
	"time"
)

// Changes are what a test has otherwise than it is.
type Changes struct {
	Managers   [][]string    // window managers
	Within     time.Duration // bounds the start, where it is set
	WindowsIn  time.Duration // bounds the wait for windows, where it is set
	NotReadied bool          // RunGuest was not called
}

// StartChanged is Start with changes.
func StartChanged(ctx context.Context, o *Options, c Changes) (*Desktop, error) {
	p, err := o.resolve()
	if err != nil {
		return nil, err
	}
	p.managers = c.Managers
	if c.Within > 0 {
		p.startTime = c.Within
	}
	if c.WindowsIn > 0 {
		p.windowTime = c.WindowsIn
	}
	if c.NotReadied {
		readied.Store(false)
		defer readied.Store(true)
	}
	return start(ctx, p)
}
