package picture_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/loupe-tools/loupe/picture"
)

// photograph is a picture of w x h pixels with the look of a photograph: a
// sample of golang.org/x/image, magnified, with grain.
func photograph(t testing.TB, w, h int) *image.RGBA {
	src := open(t, filepath.Join(moreSamples, "yellow_rose.png")).Image
	m := picture.Resample(src, src.Rect, image.Pt(w, h))
	grain := noise(w, h)
	for i := range m.Pix {
		if i%4 != 3 {
			m.Pix[i] = byte(min(255, int(m.Pix[i])+int(grain.Pix[i])/64))
		}
	}
	return m
}

// chart is a picture of w x h pixels with the look of a line chart.
func chart(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range m.Pix {
		m.Pix[i] = 255
	}
	for i := range 20 {
		for x := range w {
			m.SetRGBA(x, h*i/20, color.RGBA{220, 220, 220, 255})
		}
		for y := range h {
			m.SetRGBA(w*i/20, y, color.RGBA{220, 220, 220, 255})
		}
	}
	grain := noise(w, 6)
	for line, c := range []color.RGBA{{31, 119, 180, 255}, {255, 127, 14, 255}, {44, 160, 44, 255}, {214, 39, 40, 255}, {148, 103, 189, 255}, {140, 86, 75, 255}} {
		for x := range w {
			y := float64(h) * (0.5 + 0.35*math.Sin(float64(x*(line+2))/float64(w)*5+float64(line)))
			y += float64(grain.Pix[grain.PixOffset(x, line)])/10 - 12
			for d := range 4 {
				m.SetRGBA(x, int(y)+d, c)
			}
		}
	}
	return m
}

func pictures(t testing.TB) map[string]*image.RGBA {
	return map[string]*image.RGBA{"photo": photograph(t, 4000, 3000), "chart": chart(4000, 3000)}
}

func BenchmarkDecode(b *testing.B) {
	for name, m := range pictures(b) {
		var file bytes.Buffer
		if err := picture.EncodePNG(&file, m); err != nil {
			b.Fatal(err)
		}
		files := map[string][]byte{"png": file.Bytes()}
		if picture.JPEGAvailable {
			files["jpeg"] = encodeJPEG(b, m)
		}
		for kind, data := range files {
			b.Run(fmt.Sprintf("%s/%s/12MP", kind, name), func(b *testing.B) {
				b.SetBytes(int64(len(m.Pix)))
				for b.Loop() {
					if _, err := picture.Decode(bytes.NewReader(data), nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	for _, name := range []string{"blue-purple-pink-large.lossless.webp", "blue-purple-pink-large.normal-filter.lossy.webp", "video-001.tiff"} {
		data := read(b, filepath.Join(moreSamples, name))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := picture.Decode(bytes.NewReader(data), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkResample(b *testing.B) {
	m := photograph(b, 4000, 3000)
	for _, c := range []struct {
		name string
		box  image.Rectangle
		size image.Point
	}{
		{"view/12MP-to-1448x1086", m.Rect, image.Pt(1448, 1086)},
		{"view/12MP-to-2408x1806", m.Rect, image.Pt(2408, 1806)},
		{"zoom/400x300-to-2408x1806", image.Rect(1000, 1000, 1400, 1300), image.Pt(2408, 1806)},
		{"zoom/400x300-to-1448x1086", image.Rect(1000, 1000, 1400, 1300), image.Pt(1448, 1086)},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				picture.Resample(m, c.box, c.size)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for name, m := range pictures(b) {
		m = picture.Resample(m, m.Rect, image.Pt(2408, 1806))
		encoders := map[string]func(io.Writer, *image.RGBA) error{"png": picture.EncodePNG}
		if picture.JPEGAvailable {
			encoders["jpeg"] = picture.EncodeJPEG
		}
		for kind, encode := range encoders {
			b.Run(fmt.Sprintf("%s/%s/2408x1806", kind, name), func(b *testing.B) {
				var out bytes.Buffer
				for b.Loop() {
					out.Reset()
					if err := encode(&out, m); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(out.Len()), "bytes/file")
			})
		}
	}
}
