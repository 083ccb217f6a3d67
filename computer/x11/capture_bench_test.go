package x11

import (
	"bytes"
	"image"
	"math/rand/v2"
	"testing"

	"github.com/loupe-tools/loupe/internal/desktest"
	"github.com/loupe-tools/loupe/picture"
)

// benchDisplay is a display of 1920x1080 with some thousand rectangles on it.
func benchDisplay(b *testing.B, o *Options) *Display {
	b.Helper()
	s := desktest.Xvfb(b, desktest.Options{Width: 1920, Height: 1080})
	p := newPainter(b, s)
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		x, y := random.IntN(1900), random.IntN(1060)
		p.fill(image.Rect(x, y, x+1+random.IntN(80), y+1+random.IntN(12)), random.Uint32N(1<<24))
	}
	return openDisplay(b, s, o)
}

func BenchmarkCapture(b *testing.B) {
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			d := benchDisplay(b, &way.options)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				capture(b, d, image.Rect(0, 0, 1920, 1080))
			}
		})
	}
}

func BenchmarkCaptureToPNG(b *testing.B) {
	d := benchDisplay(b, nil)
	var size bytes.Buffer
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		size.Reset()
		if err := picture.EncodePNG(&size, capture(b, d, image.Rect(0, 0, 1920, 1080))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size.Len()), "bytes")
}

func BenchmarkDecode(b *testing.B) {
	f := pixelFormat{bits: 32, pad: 32, class: 4, depth: 24, red: 0xff0000, green: 0xff00, blue: 0xff}
	data := make([]byte, 4*1920*1080)
	m := image.NewRGBA(image.Rect(0, 0, 1920, 1080))
	b.SetBytes(int64(len(data)))
	for range b.N {
		f.decode(m, 0, data, colours{})
	}
}
