package reader

import (
	"image"
	"image/color"
	"image/draw"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// A sketch is a picture that a test draws.
type sketch struct {
	*image.RGBA
	t testing.TB
}

func newSketch(t testing.TB, w, h int, ground color.Color) *sketch {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(m, m.Rect, image.NewUniform(ground), image.Point{}, draw.Src)
	return &sketch{m, t}
}

// text writes a line with its top left corner at x, y and returns the box of its ink.
func (s *sketch) text(x, y int, size float64, ink color.Color, text string) image.Rectangle {
	s.t.Helper()
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		s.t.Fatal(err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: size, DPI: 72})
	if err != nil {
		s.t.Fatal(err)
	}
	d := font.Drawer{Dst: s.RGBA, Src: image.NewUniform(ink), Face: face, Dot: fixed.P(x, y+int(size))}
	bounds, _ := d.BoundString(text)
	d.DrawString(text)
	return image.Rect(bounds.Min.X.Floor(), bounds.Min.Y.Floor(), bounds.Max.X.Ceil(), bounds.Max.Y.Ceil())
}

// curve draws a noisy line from left to right about the height y.
func (s *sketch) curve(y, swing int, ink color.Color) {
	seed := uint32(y*2654435 + swing)
	before := y
	for x := 0; x < s.Rect.Dx(); x++ {
		if x%4 == 0 {
			seed = seed*1664525 + 1013904223
		}
		now := y + int(seed>>16)%(2*swing+1) - swing
		for v := min(before, now); v <= max(before, now); v++ {
			s.Set(x, v, ink)
		}
		before = now
	}
}

// rules draws a grid.
func (s *sketch) rules(step int, ink color.Color) {
	for x := step; x < s.Rect.Dx(); x += step {
		for y := range s.Rect.Dy() {
			s.Set(x, y, ink)
		}
	}
	for y := step; y < s.Rect.Dy(); y += step {
		for x := range s.Rect.Dx() {
			s.Set(x, y, ink)
		}
	}
}

var (
	white = color.RGBA{255, 255, 255, 255}
	black = color.RGBA{0, 0, 0, 255}
	night = color.RGBA{24, 26, 30, 255}
	blue  = color.RGBA{31, 119, 180, 255}
	red   = color.RGBA{214, 39, 40, 255}
	green = color.RGBA{44, 160, 44, 255}
	pale  = color.RGBA{200, 200, 200, 255}
)
