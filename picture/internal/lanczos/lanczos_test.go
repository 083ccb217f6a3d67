package lanczos

import (
	"bytes"
	"image"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// plain is the definition of the two passes, one sample at a time.
func plain(src *image.RGBA, box image.Rectangle, width, height int) *image.RGBA {
	clip := func(sum int64) byte { return byte(min(max(sum>>precision, 0), 255)) }
	h, v := newAxis(box.Dx(), width), newAxis(box.Dy(), height)
	mid := image.NewRGBA(image.Rect(0, 0, width, box.Dy()))
	dst := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range box.Dy() {
		for x := range width {
			first, weights := h.at(x)
			for c := range 4 {
				sum := int64(half)
				for i, w := range weights {
					sum += int64(w) * int64(src.Pix[src.PixOffset(box.Min.X+first+i, box.Min.Y+y)+c])
				}
				mid.Pix[mid.PixOffset(x, y)+c] = clip(sum)
			}
		}
	}
	for y := range height {
		first, weights := v.at(y)
		for x := range width {
			for c := range 4 {
				sum := int64(half)
				for i, w := range weights {
					sum += int64(w) * int64(mid.Pix[mid.PixOffset(x, first+i)+c])
				}
				dst.Pix[dst.PixOffset(x, y)+c] = clip(sum)
			}
			dst.Pix[dst.PixOffset(x, y)+3] = 255
		}
	}
	return dst
}

// The kernels, the ring of rows, the passes left out and the sharing among
// goroutines change nothing.
func TestResampleIsItsDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 70).Draw(t, "w"), rapid.IntRange(1, 70).Draw(t, "h")
		src := image.NewRGBA(image.Rect(-3, 5, w-3, h+5))
		hard := rapid.Bool().Draw(t, "hard") // black and white make sums overshoot most
		for i := range src.Pix {
			if src.Pix[i] = byte(random.Uint32()); hard {
				src.Pix[i] = byte(int8(src.Pix[i]) >> 7)
			}
		}
		box := src.Rect
		width := rapid.OneOf(rapid.Just(w), rapid.IntRange(1, 130)).Draw(t, "width")
		height := rapid.OneOf(rapid.Just(h), rapid.IntRange(1, 130)).Draw(t, "height")
		want := plain(src, box, width, height)
		for _, workers := range []int{1, 2, 5} {
			if got := Resample(src, box, width, height, workers); !got.Rect.Eq(want.Rect) || !bytes.Equal(got.Pix, want.Pix) {
				t.Fatalf("%v to %d x %d with %d workers differs", box, width, height, workers)
			}
		}
	})
}

// A very long side has so many weights that their rounding adds up.
func TestLongSide(t *testing.T) {
	for _, size := range []image.Point{{200000, 1}, {1, 200000}} {
		src := image.NewRGBA(image.Rectangle{Max: size})
		for i := range src.Pix {
			src.Pix[i] = 255
		}
		got := Resample(src, src.Rect, 2, 2, 1)
		want := plain(src, src.Rect, 2, 2)
		if !bytes.Equal(got.Pix, want.Pix) {
			t.Errorf("%v: %v, want %v", size, got.Pix, want.Pix)
		}
	}
}
