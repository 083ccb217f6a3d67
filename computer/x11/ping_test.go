package x11

import (
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// TestCaughtUp asks applications whether they have read their events, with and without a
// window manager around.
func TestCaughtUp(t *testing.T) {
	for _, manager := range []string{"", "openbox", "mutter"} {
		t.Run("under "+manager, func(t *testing.T) {
			s := desktest.Xvfb(t, desktest.Options{})
			if manager != "" {
				s.WindowManager(t, manager)
			}
			d := openDisplay(t, s, nil)
			focus := func() xproto.Window {
				window, err := d.focused(t.Context())
				if err != nil || window == 0 {
					t.Fatalf("the focus is on window %d, %v", window, err)
				}
				return window
			}
			expect := func(window xproto.Window, bound time.Duration, wantAnswered, wantSupported bool) {
				t.Helper()
				answered, supported := d.caughtUp(t.Context(), window, bound)
				if answered != wantAnswered || supported != wantSupported {
					t.Errorf("answered is %v, supported %v; want %v, %v", answered, supported, wantAnswered, wantSupported)
				}
			}
			g := s.GTK(t, desktest.GTKOptions{})
			window := focus()
			expect(window, time.Minute, true, true)
			g.Pause()
			expect(window, 20*time.Millisecond, false, true)
			g.Resume()
			expect(window, time.Minute, true, true)
			g.Stop()
			desktest.Eventually(t, "the window is gone", func() bool {
				_, supported := d.caughtUp(t.Context(), window, time.Second)
				return !supported
			})

			s.Xterm(t, desktest.XtermOptions{})
			expect(focus(), time.Minute, false, false)
			expect(0, time.Minute, false, false)
			expect(d.root, time.Minute, false, false)
		})
	}
}

// TestCaughtUpAfterText holds that an application that has answered has the text that it
// was sent before: that keys get other symbols then depends on it.
func TestCaughtUpAfterText(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	g := s.GTK(t, desktest.GTKOptions{})
	d := openDisplay(t, s, nil)
	g.Slow(t, time.Millisecond)
	typeAll(t, d, mixed(100))
	// GTK has read the keys, and looks them up as it reads them. Other symbols on the keys
	// no longer matter.
	window, err := d.focused(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if answered, supported := d.caughtUp(t.Context(), window, time.Minute); !answered || !supported {
		t.Fatalf("answered is %v, supported %v", answered, supported)
	}
	l, err := d.keyboard.xkb.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[xproto.Keycode]keyRow{}
	for c := 10; c <= int(l.max); c++ {
		rows[xproto.Keycode(c)] = lentRow('x', 'X')
	}
	if err := d.keyboard.xkb.write(t.Context(), l, rows); err != nil {
		t.Fatal(err)
	}
	shows(t, mixed(100), func() string { return g.State(t).Entry })
}
