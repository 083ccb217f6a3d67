package x11

import (
	"errors"
	"os"
	"testing"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// newGrabber shows a window that keeps the display to itself from the press of a button to
// its release, as some window managers do while something is moved.
func newGrabber(t *testing.T, s *desktest.Server) (grabbed <-chan struct{}) {
	t.Helper()
	l, err := connect(t.Context(), s.Name(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	has := make(chan struct{}, 1)
	l.handlers[xproto.ButtonPress] = func([]byte) {
		xproto.GrabServer(l.x)
		has <- struct{}{}
	}
	l.handlers[xproto.ButtonRelease] = func([]byte) { xproto.UngrabServer(l.x) }
	l.listen()
	t.Cleanup(func() {
		l.breakOff()
		<-l.done
	})
	window, err := xproto.NewWindowId(l.x)
	if err != nil {
		t.Fatal(err)
	}
	xproto.CreateWindow(l.x, 0, window, l.root, 900, 500, 200, 200, 0, xproto.WindowClassInputOutput, 0,
		xproto.CwOverrideRedirect|xproto.CwEventMask, []uint32{1, xproto.EventMaskButtonPress | xproto.EventMaskButtonRelease})
	xproto.MapWindow(l.x, window)
	if err := l.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return has
}

// TestTypeBesideGrab has keys lent, and typing tried, while another client keeps the display
// to itself until the button is released that we hold.
func TestTypeBesideGrab(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	before := keymap(t, s)
	x := s.Xterm(t, desktest.XtermOptions{})
	grabbed := newGrabber(t, s)
	d := openDisplay(t, s, nil)
	typeAll(t, d, "漢")
	shows(t, "漢", func() string { return x.Typed(t) })
	if err := d.Send(t.Context(), moveTo(1000, 600), computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton}); err != nil {
		t.Fatal(err)
	}
	<-grabbed
	// The server may have put us to sleep at the press. Then the button is released for us,
	// and the keys can be given back.
	kept := false
	desktest.Eventually(t, "giving keys back is tried", func() bool {
		d.keyboard.mu.Lock()
		defer d.keyboard.mu.Unlock()
		d.locker.mu.Lock()
		defer d.locker.mu.Unlock()
		kept = d.locker.own == nil
		return kept || len(d.keyboard.loans) == 0
	})
	var input *computer.InputError
	if kept {
		if n, err := d.Type(t.Context(), "字"); n != 0 || !errors.As(err, &input) {
			t.Errorf("typed %d, %v", n, err)
		}
		if err := d.Send(t.Context(), press(computer.Key(0x01000436))...); !errors.As(err, &input) {
			t.Errorf("the error is %v", err)
		}
	}
	if err := d.Send(t.Context(), moveTo(1010, 610), computer.Event{Kind: computer.ButtonUp, Button: computer.LeftButton}); err != nil {
		t.Fatal(err)
	}
	nothingDown(t, s) // another client, which is served again
	desktest.Eventually(t, "the keys are given back", func() bool { return keymap(t, s) == before })
	typeAll(t, d, "字")
	shows(t, "漢字", func() string { return x.Typed(t) })

	// Closing also lets go before anything else.
	if err := d.Send(t.Context(), computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton}); err != nil {
		t.Fatal(err)
	}
	<-grabbed
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	nothingDown(t, s)
	same(t, keymap(t, s), before)
}
