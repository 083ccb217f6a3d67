package x11

import (
	"image"
	"os"
	"testing"

	"github.com/jezek/xgb/res"
	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/internal/desktest"
)

func pointerAt(t *testing.T, l *link) (x, y int) {
	t.Helper()
	at, err := xproto.QueryPointer(l.x, l.root).Reply()
	if err != nil {
		t.Fatal(err)
	}
	return int(at.RootX), int(at.RootY)
}

// TestKeep opens and closes a display that resets when its last client leaves, more often
// than it has room for clients.
func TestKeep(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480, Reset: true})

	// Without a Display the pointer goes back to the middle.
	l, err := connect(t.Context(), s.Name(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	l.listen()
	xproto.WarpPointer(l.x, 0, l.root, 0, 0, 0, 0, 1, 1)
	if err := l.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.breakOff()
	<-l.done

	desktest.Eventually(t, "the pointer goes to the middle when the last client leaves", func() bool {
		l, err := connect(t.Context(), s.Name(), os.Getenv)
		if err != nil {
			return false // in the middle of the reset
		}
		defer l.breakOff()
		x, y := pointerAt(t, l)
		return x == 320 && y == 240
	})

	x, y := 0, 0
	for i := range 300 {
		var d *Display
		open := func() bool {
			d, err = Open(t.Context(), s.Name(), nil)
			return err == nil
		}
		if i == 0 {
			desktest.Eventually(t, "the display can be opened again after the reset", open)
		} else if !open() {
			t.Fatalf("opening for the %d. time: %v", i+1, err)
		}
		if i > 0 {
			if nowX, nowY := pointerAt(t, d.link); nowX != x || nowY != y {
				t.Fatalf("the pointer is at (%d, %d) the %d. time, and was left at (%d, %d)", nowX, nowY, i+1, x, y)
			}
		}
		if _, present, err := d.extension(t.Context(), "X-Resource"); err != nil || !present {
			t.Fatalf("clients cannot be counted: %v", err)
		}
		clients, err := res.QueryClients(d.x).Reply()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(clients.Clients); n > 3 {
			t.Fatalf("there are %d clients, of which one is the server", n)
		}
		x, y = i, i/2
		xproto.WarpPointer(d.x, 0, d.root, 0, 0, 0, 0, int16(x), int16(y))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeepLittle expects one window to be left behind, and nothing else that a Display uses.
func TestKeepLittle(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480, Reset: true})
	d, err := Open(t.Context(), s.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	capture(t, d, image.Rect(0, 0, 640, 480))
	if d.capturer.memory == nil {
		t.Error("shared memory is not in use")
	}
	if err := d.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Type(t.Context(), "aж"); err != nil {
		t.Fatal(err)
	}
	base := d.setup.ResourceIdBase
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	p := newPainter(t, s)
	if _, _, err := p.extension(t.Context(), "X-Resource"); err != nil {
		t.Fatal(err)
	}
	left := map[string]uint32{}
	reply, err := res.QueryClientResources(p.x, base).Reply()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reply.Types {
		name, err := xproto.GetAtomName(p.x, r.ResourceType).Reply()
		if err != nil {
			t.Fatal(err)
		}
		left[name.Name] = r.Count
	}
	if left["WINDOW"] != 1 || len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

// TestKeepNotNeeded expects nothing to be left on a display that others use, or that does
// not reset.
func TestKeepNotNeeded(t *testing.T) {
	for _, reset := range []bool{true, false} {
		s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64, Reset: reset})
		p := newPainter(t, s)
		d, err := Open(t.Context(), s.Name(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reset {
			p.breakOff()
			<-p.done
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if !reset {
			p = newPainter(t, s)
		}
		windows, err := xproto.QueryTree(p.x, p.root).Reply()
		if err != nil {
			t.Fatal(err)
		}
		if len(windows.Children) != 0 {
			t.Errorf("reset %v: %d windows are left", reset, len(windows.Children))
		}
	}
}

// TestKeepTerminate expects a display to end that is to end with its last client.
func TestKeepTerminate(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64, Reset: true, Args: []string{"-terminate"}})
	d, err := Open(t.Context(), s.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	desktest.Eventually(t, "the display ends", func() bool {
		l, err := connect(t.Context(), s.Name(), os.Getenv)
		if err == nil {
			l.breakOff()
		}
		return err != nil
	})
}

// TestKeepSparesOthers puts the number of somebody else's window where a Display would have
// left its own.
func TestKeepSparesOthers(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64, Reset: true})
	p := newPainter(t, s)
	window := p.window(p.bounds())
	atom, err := xproto.InternAtom(p.x, false, uint16(len(keptName)), keptName).Reply()
	if err != nil {
		t.Fatal(err)
	}
	value := []byte{byte(window), byte(window >> 8), byte(window >> 16), byte(window >> 24)}
	xproto.ChangeProperty(p.x, xproto.PropModeReplace, p.root, atom.Atom, xproto.AtomWindow, 32, 1, value)
	if err := p.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	openDisplay(t, s, nil)
	if err := p.sync(t.Context()); err != nil {
		t.Errorf("the other client was ended: %v", err)
	}
}
