package x11

import (
	"image"
	"image/color"
	"testing"

	"github.com/jezek/xgb/xfixes"
	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// TestCaptureCursor looks for the pointer where it is, in whole and partial captures, cut at
// the edges of the region and of the display.
func TestCaptureCursor(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 320, Height: 200})
	p := newPainter(t, s)
	p.fill(image.Rect(0, 0, 320, 200), 0x00ff00)
	const side = 8
	hot := image.Pt(3, 2)
	p.cursor(side, hot, color.RGBA{200, 100, 50, 255})
	tests := []struct {
		name    string
		pointer image.Point
		region  image.Rectangle
	}{
		{"inside", image.Pt(100, 80), image.Rect(0, 0, 320, 200)},
		{"in a region", image.Pt(100, 80), image.Rect(90, 70, 130, 110)},
		{"at the region's left and top", image.Pt(100, 80), image.Rect(100, 80, 130, 110)},
		{"at the region's right and bottom", image.Pt(100, 80), image.Rect(50, 50, 99, 82)},
		{"one pixel", image.Pt(100, 80), image.Rect(100, 80, 101, 81)},
		{"beside the region", image.Pt(100, 80), image.Rect(105, 70, 130, 110)},
		{"at the display's origin", image.Pt(0, 0), image.Rect(0, 0, 320, 200)},
		{"at the display's end", image.Pt(319, 199), image.Rect(0, 0, 320, 200)},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			d := openDisplay(t, s, &way.options)
			for _, tt := range tests {
				t.Run(tt.name, func(t *testing.T) {
					p.warp(tt.pointer)
					drawn := image.Rect(0, 0, side, side).Add(tt.pointer.Sub(hot))
					wantPixels(t, capture(t, d, tt.region), func(x, y int) color.RGBA {
						if image.Pt(x, y).Add(tt.region.Min).In(drawn) {
							return color.RGBA{200, 100, 50, 255}
						}
						return color.RGBA{0, 255, 0, 255}
					})
				})
			}
		})
	}
}

// TestDrawCursor mixes translucent pixels.
func TestDrawCursor(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 4, 1))
	for i := range m.Pix {
		m.Pix[i] = 255
	}
	drawCursor(m, image.Pt(10, 10), &xfixes.GetCursorImageReply{
		X: 11, Y: 10, Width: 2, Height: 1, Xhot: 1,
		CursorImage: []uint32{0x80800000, 0x00000000}, // red, half; nothing
	})
	wantPixels(t, m, func(x, _ int) color.RGBA {
		if x == 0 {
			return color.RGBA{255, 127, 127, 255}
		}
		return color.RGBA{255, 255, 255, 255}
	})
}

// TestDrawCursorAnywhere checks that no pointer, wherever and however large, fails, or
// touches what it does not cover.
func TestDrawCursorAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(0, 9).Draw(t, "width"), rapid.IntRange(0, 9).Draw(t, "height")
		c := &xfixes.GetCursorImageReply{
			X: rapid.Int16().Draw(t, "x"), Y: rapid.Int16Range(-9, 9).Draw(t, "y"),
			Xhot: rapid.Uint16().Draw(t, "hot x"), Yhot: rapid.Uint16Range(0, 9).Draw(t, "hot y"),
			Width: uint16(width), Height: uint16(height),
			CursorImage: rapid.SliceOfN(rapid.Uint32(), width*height, width*height).Draw(t, "pixels"),
		}
		m := image.NewRGBA(image.Rect(0, 0, 7, 5))
		for i := range m.Pix {
			m.Pix[i] = 255
		}
		origin := image.Pt(rapid.IntRange(-20, 20).Draw(t, "origin x"), rapid.IntRange(-20, 20).Draw(t, "origin y"))
		drawCursor(m, origin, c)
		covered := image.Rect(0, 0, width, height).Add(image.Pt(int(c.X)-int(c.Xhot), int(c.Y)-int(c.Yhot)))
		for y := range 5 {
			for x := range 7 {
				got := m.RGBAAt(x, y)
				if got.A != 255 {
					t.Fatalf("pixel (%d, %d) is not opaque", x, y)
				}
				if !image.Pt(x, y).Add(origin).In(covered) && got != (color.RGBA{255, 255, 255, 255}) {
					t.Fatalf("pixel (%d, %d) was touched", x, y)
				}
			}
		}
	})
}

// TestCaptureCursorElsewhere holds that no pointer is drawn that is on another screen.
func TestCaptureCursorElsewhere(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 320, Height: 200, Args: []string{"-screen", "1", "320x200x24"}})
	p := newPainter(t, s) // of the first screen
	p.cursor(8, image.Pt(0, 0), color.RGBA{200, 100, 50, 255})
	p.warp(image.Pt(100, 80))
	second, err := Open(t.Context(), s.Name()+".1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	m := capture(t, second, image.Rect(100, 80, 108, 88))
	wantPixels(t, m, func(int, int) color.RGBA { return color.RGBA{A: 255} })
}
