package x11

import (
	"context"
	"fmt"

	"github.com/jezek/xgb/screensaver"
	"github.com/jezek/xgb/xproto"
)

// keepAwake keeps the screen from blanking while the connection lasts, as long waits
// between inputs would make it do: where the display has MIT-SCREEN-SAVER 1.1 the timers of
// the screen saver and of power saving stand still, until the server lets them go on when
// the connection ends, however it ends. The user's settings stay as they are. A screen saver
// that is active is ended, here and before each capture; a display without the extension
// has that alone.
func (d *Display) keepAwake(ctx context.Context) error {
	_, present, err := d.extension(ctx, "MIT-SCREEN-SAVER")
	if err != nil {
		return err
	}
	_, err = await(ctx, d.link, func() (struct{}, error) {
		if present {
			version, err := screensaver.QueryVersion(d.x, 1, 1).Reply()
			if err != nil {
				return struct{}{}, err
			}
			if version.ServerMajorVersion > 1 || version.ServerMajorVersion == 1 && version.ServerMinorVersion >= 1 {
				if err := screensaver.SuspendChecked(d.x, 1).Check(); err != nil {
					return struct{}{}, err
				}
				d.awake = true
			}
		}
		return struct{}{}, xproto.ForceScreenSaverChecked(d.x, xproto.ScreenSaverReset).Check()
	})
	if err != nil {
		return fmt.Errorf("keeping the screen from blanking: %w", err)
	}
	return nil
}

// letSleep lets the timers go on, which the server would not do for a connection that leaves
// something behind; see keep.
func (d *Display) letSleep(ctx context.Context) {
	if !d.awake {
		return
	}
	_, _ = await(ctx, d.link, func() (struct{}, error) {
		return struct{}{}, screensaver.SuspendChecked(d.x, 0).Check()
	})
}

// wake ends a screen saver that became active in spite of keepAwake. It does not wait.
func (d *Display) wake() { xproto.ForceScreenSaver(d.x, xproto.ScreenSaverReset) }
