package x11

import (
	"image"
	"image/color"
	"os"
	"testing"

	"github.com/jezek/xgb/xproto"
	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// openDisplay opens a display for a test, and sees to it that nothing of it is left running.
func openDisplay(t testing.TB, s *desktest.Server, o *Options) *Display {
	t.Helper()
	before := goleak.IgnoreCurrent()
	d, err := Open(t.Context(), s.Name(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
	return d
}

// painter is a second client of a display, which draws on the root window and over all that
// is in it.
type painter struct {
	*link
	t  testing.TB
	gc xproto.Gcontext
}

func newPainter(t testing.TB, s *desktest.Server) *painter {
	t.Helper()
	l, err := connect(t.Context(), s.Name(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	p := &painter{link: l, t: t}
	p.listen()
	t.Cleanup(func() {
		p.breakOff()
		<-p.done
	})
	if p.gc, err = xproto.NewGcontextId(p.x); err != nil {
		t.Fatal(err)
	}
	xproto.CreateGC(p.x, p.gc, xproto.Drawable(p.root), xproto.GcSubwindowMode, []uint32{xproto.SubwindowModeIncludeInferiors})
	return p
}

// fill fills a rectangle with a pixel value.
func (p *painter) fill(r image.Rectangle, pixel uint32) {
	p.t.Helper()
	xproto.ChangeGC(p.x, p.gc, xproto.GcForeground, []uint32{pixel})
	err := xproto.PolyFillRectangleChecked(p.x, xproto.Drawable(p.root), p.gc, []xproto.Rectangle{{
		X: int16(r.Min.X), Y: int16(r.Min.Y), Width: uint16(r.Dx()), Height: uint16(r.Dy()),
	}}).Check()
	if err != nil {
		p.t.Fatal(err)
	}
}

// put writes rows of pixels in the server's own format.
func (p *painter) put(at image.Point, size image.Point, data []byte) {
	p.t.Helper()
	err := xproto.PutImageChecked(p.x, xproto.ImageFormatZPixmap, xproto.Drawable(p.root), p.gc,
		uint16(size.X), uint16(size.Y), int16(at.X), int16(at.Y), 0, p.screen.RootDepth, data).Check()
	if err != nil {
		p.t.Fatal(err)
	}
}

// warp moves the pointer.
func (p *painter) warp(to image.Point) {
	p.t.Helper()
	if err := xproto.WarpPointerChecked(p.x, 0, p.root, 0, 0, 0, 0, int16(to.X), int16(to.Y)).Check(); err != nil {
		p.t.Fatal(err)
	}
}

// cursor gives the root window a solid, square pointer of the given colour.
func (p *painter) cursor(side int, hot image.Point, c color.RGBA) {
	p.t.Helper()
	pixmap, err := xproto.NewPixmapId(p.x)
	if err != nil {
		p.t.Fatal(err)
	}
	gc, err := xproto.NewGcontextId(p.x)
	if err != nil {
		p.t.Fatal(err)
	}
	id, err := xproto.NewCursorId(p.x)
	if err != nil {
		p.t.Fatal(err)
	}
	wide := func(v uint8) uint16 { return uint16(v) * 257 }
	xproto.CreatePixmap(p.x, 1, pixmap, xproto.Drawable(p.root), uint16(side), uint16(side))
	xproto.CreateGC(p.x, gc, xproto.Drawable(pixmap), xproto.GcForeground, []uint32{1})
	xproto.PolyFillRectangle(p.x, xproto.Drawable(pixmap), gc, []xproto.Rectangle{{Width: uint16(side), Height: uint16(side)}})
	xproto.CreateCursor(p.x, id, pixmap, pixmap, wide(c.R), wide(c.G), wide(c.B), 0, 0, 0, uint16(hot.X), uint16(hot.Y))
	if err := xproto.ChangeWindowAttributesChecked(p.x, p.root, xproto.CwCursor, []uint32{uint32(id)}).Check(); err != nil {
		p.t.Fatal(err)
	}
}

// capture captures a region, or fails the test.
func capture(t testing.TB, d *Display, region image.Rectangle) *image.RGBA {
	t.Helper()
	m, err := d.Capture(t.Context(), region)
	if err != nil {
		t.Fatal(err)
	}
	if m.Rect != (image.Rectangle{Max: region.Size()}) {
		t.Fatalf("the capture of %v has the bounds %v", region, m.Rect)
	}
	return m
}

// wantPixels checks that every pixel of m is what want says.
func wantPixels(t testing.TB, m *image.RGBA, want func(x, y int) color.RGBA) {
	t.Helper()
	wrong := 0
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			if got, want := m.RGBAAt(x, y), want(x, y); got != want {
				if wrong++; wrong <= 5 {
					t.Errorf("pixel (%d, %d) is %v, want %v", x, y, got, want)
				}
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d pixels are wrong", wrong)
	}
}

// window puts a window on the display, and returns when it can be drawn in.
func (p *painter) window(r image.Rectangle) xproto.Window {
	p.t.Helper()
	id, err := xproto.NewWindowId(p.x)
	if err != nil {
		p.t.Fatal(err)
	}
	xproto.CreateWindow(p.x, 0, id, p.root, int16(r.Min.X), int16(r.Min.Y), uint16(r.Dx()), uint16(r.Dy()), 0,
		xproto.WindowClassInputOutput, 0, xproto.CwBackPixel, []uint32{0x808080})
	if err := xproto.MapWindowChecked(p.x, id).Check(); err != nil {
		p.t.Fatal(err)
	}
	return id
}

// fillWindow fills a rectangle of a window with a pixel value.
func (p *painter) fillWindow(w xproto.Window, r image.Rectangle, pixel uint32) {
	p.t.Helper()
	xproto.ChangeGC(p.x, p.gc, xproto.GcForeground, []uint32{pixel})
	err := xproto.PolyFillRectangleChecked(p.x, xproto.Drawable(w), p.gc, []xproto.Rectangle{{
		X: int16(r.Min.X), Y: int16(r.Min.Y), Width: uint16(r.Dx()), Height: uint16(r.Dy()),
	}}).Check()
	if err != nil {
		p.t.Fatal(err)
	}
}

// bounds are those of the display.
func (p *painter) bounds() image.Rectangle {
	return image.Rect(0, 0, int(p.screen.WidthInPixels), int(p.screen.HeightInPixels))
}
