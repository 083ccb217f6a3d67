package x11

import (
	"image"
	"image/color"
	"testing"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// TestScreenSaver lets the screen savers of two displays come due, and expects to see the
// screen on the one that is open here. On the other it must be gone, or nothing is shown.
func TestScreenSaver(t *testing.T) {
	start := func() (*desktest.Server, *painter) {
		s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64})
		p := newPainter(t, s)
		p.fill(image.Rect(0, 0, 64, 64), 0xff0000)
		return s, p
	}
	// After one second the saver covers the screen with its window, which is what it does
	// where it may not blank.
	arm := func(p *painter) {
		err := xproto.SetScreenSaverChecked(p.x, 1, 0, xproto.BlankingNotPreferred, xproto.ExposuresAllowed).Check()
		if err != nil {
			t.Fatal(err)
		}
	}
	first := func(p *painter) uint32 {
		reply, err := xproto.GetImage(p.x, xproto.ImageFormatZPixmap, xproto.Drawable(p.root), 0, 0, 1, 1, 0xffffff).Reply()
		if err != nil {
			t.Fatal(err)
		}
		return uint32(reply.Data[2])<<16 | uint32(reply.Data[1])<<8 | uint32(reply.Data[0])
	}
	s, p := start()
	_, control := start()
	d := openDisplay(t, s, nil)
	d.capturer.cursor = false
	arm(p)
	arm(control)
	desktest.Eventually(t, "the screen saver of a display that nobody holds", func() bool { return first(control) != 0xff0000 })
	if got := first(p); got != 0xff0000 {
		t.Errorf("the screen saver has covered the display that is held: %06x", got)
	}
	wantPixels(t, capture(t, d, image.Rect(0, 0, 64, 64)), func(int, int) color.RGBA { return color.RGBA{255, 0, 0, 255} })

	settings, err := xproto.GetScreenSaver(p.x).Reply()
	if err != nil || settings.Timeout != 1 {
		t.Errorf("the settings are not the user's any more: %+v, %v", settings, err)
	}
}

// TestScreenSaverActive expects a screen saver to be ended that is active at the start, and
// one that somebody starts later.
func TestScreenSaverActive(t *testing.T) {
	for _, args := range [][]string{nil, {"-extension", "MIT-SCREEN-SAVER"}} {
		s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64, Args: args})
		p := newPainter(t, s)
		window := p.window(image.Rect(0, 0, 64, 64)) // grey, and drawn again by the server
		_ = window
		err := xproto.SetScreenSaverChecked(p.x, 3600, 0, xproto.BlankingNotPreferred, xproto.ExposuresAllowed).Check()
		if err != nil {
			t.Fatal(err)
		}
		start := func() {
			if err := xproto.ForceScreenSaverChecked(p.x, xproto.ScreenSaverActive).Check(); err != nil {
				t.Fatal(err)
			}
		}
		start()
		d := openDisplay(t, s, nil)
		d.capturer.cursor = false
		for range 2 {
			wantPixels(t, capture(t, d, image.Rect(0, 0, 64, 64)), func(int, int) color.RGBA { return color.RGBA{128, 128, 128, 255} })
			start()
		}
	}
}
