package picture_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/picture"
)

// psnr is the likeness of the colours of two images of one size, in decibels.
func psnr(a, b *image.RGBA) float64 {
	x, y := rgb(a), rgb(b)
	if len(x) != len(y) {
		return 0
	}
	total := 0.0
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		total += d * d
	}
	return 10 * math.Log10(255*255*float64(len(x))/total)
}

func encodeJPEG(t testing.TB, m *image.RGBA) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := picture.EncodeJPEG(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// segments returns the content of each marker segment in front of the pixels.
func segments(t *testing.T, file []byte) map[byte][]byte {
	t.Helper()
	out := map[byte][]byte{}
	for i := 2; i+4 <= len(file) && file[i] == 0xFF; {
		marker, n := file[i+1], int(binary.BigEndian.Uint16(file[i+2:]))
		out[marker] = append(out[marker], file[i+4:i+2+n]...)
		if marker == 0xDA {
			return out
		}
		i += 2 + n
	}
	t.Fatal("no start of scan")
	return nil
}

func TestJPEGOut(t *testing.T) {
	if !picture.JPEGAvailable {
		if err := picture.EncodeJPEG(&bytes.Buffer{}, scene(8, 8)); !errors.Is(err, picture.ErrUnsupported) {
			t.Errorf("without cgo: %v", err)
		}
		return
	}
	dir := t.TempDir()
	for name, m := range map[string]*image.RGBA{
		"scene": scene(203, 151),
		"photo": open(t, "resample/in1.png").Image,
		"lines": open(t, "resample/in5.png").Image,
		"pixel": scene(1, 1),
	} {
		t.Run(name, func(t *testing.T) {
			source, theirs := filepath.Join(dir, name+".png"), filepath.Join(dir, name+".jpg")
			var b bytes.Buffer
			if err := picture.EncodePNG(&b, m); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(source, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			pillow(t, "jpeg", source, theirs)
			ours := encodeJPEG(t, m)

			s := segments(t, ours)
			frame := s[0xC0] // baseline
			if len(frame) != 15 || frame[5] != 3 {
				t.Fatalf("start of frame % x", frame)
			}
			for c := range 3 {
				if factors := frame[7+3*c]; factors != 0x11 {
					t.Errorf("component %d has sampling factors %#x, not 1 x 1", c, factors)
				}
			}
			if !bytes.Equal(s[0xDB], segments(t, read(t, theirs))[0xDB]) {
				t.Error("the quantisation tables are not those of quality 92")
			}
			us, them := psnr(decode(t, ours).Image, m), psnr(open(t, theirs).Image, m)
			if us < them {
				t.Errorf("%.3f dB, Pillow has %.3f", us, them)
			}
		})
	}
}

func TestColouredLinesStaySharp(t *testing.T) {
	if !picture.JPEGAvailable {
		return // zooms are PNG then, which is exact
	}
	m := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for i := range m.Pix {
		m.Pix[i] = 255
	}
	for y := range 64 {
		copy(m.Pix[m.PixOffset(31, y):], []byte{255, 0, 0, 255})
	}
	got := decode(t, encodeJPEG(t, m)).Image
	if c := got.RGBAAt(31, 20); c.R < 235 || c.G > 30 || c.B > 30 {
		t.Errorf("the line is %v", c)
	}
	for _, x := range []int{29, 30, 32, 33} {
		if c := got.RGBAAt(x, 20); c.R < 225 || c.G < 225 || c.B < 225 {
			t.Errorf("%d pixels beside the line is %v", x-31, c)
		}
	}
}

func TestPNGRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyImage(t, 20)
		if rapid.Bool().Draw(t, "flat") { // rows that repeat take other filters
			for y := 1; y < m.Rect.Dy(); y++ {
				copy(m.Pix[y*m.Stride:(y+1)*m.Stride], m.Pix)
			}
		}
		var b bytes.Buffer
		if err := picture.EncodePNG(&b, m); err != nil {
			t.Fatal(err)
		}
		p, err := picture.Decode(bytes.NewReader(b.Bytes()), nil)
		if err != nil || !p.Image.Rect.Eq(m.Rect) || !bytes.Equal(p.Image.Pix, m.Pix) {
			t.Fatalf("read back otherwise: %v", err)
		}
		// The standard library agrees.
		std, err := png.Decode(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := std.(*image.RGBA); !ok || !bytes.Equal(s.Pix, m.Pix) {
			t.Fatalf("the standard library reads a %T with other pixels", std)
		}
	})
}

// Speed is not bought with size: at most 15% more than Pillow's default.
func TestPNGSize(t *testing.T) {
	dir := t.TempDir()
	for name, m := range map[string]*image.RGBA{
		"photo":    photograph(t, 800, 600),
		"smooth":   picture.Resample(open(t, "resample/in1.png").Image, image.Rect(0, 0, 160, 120), image.Pt(800, 600)),
		"chart":    chart(1200, 900),
		"drawing":  open(t, filepath.Join(moreSamples, "gopher-doc.8bpp.png")).Image,
		"gradient": open(t, filepath.Join(moreSamples, "blue-purple-pink-large.png")).Image,
	} {
		source, theirs := filepath.Join(dir, name+".png"), filepath.Join(dir, name+"-pillow.png")
		var ours bytes.Buffer
		if err := picture.EncodePNG(&ours, m); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(source, ours.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		pillow(t, "png", source, theirs)
		ratio := float64(ours.Len()) / float64(len(read(t, theirs)))
		t.Logf("%s: %d bytes, %.3f of Pillow's", name, ours.Len(), ratio)
		if ratio > 1.15 {
			t.Errorf("%s: %d bytes, %.3f of Pillow's", name, ours.Len(), ratio)
		}
	}
}

// A part of an image, and one that does not begin at (0,0), are written alike.
func TestEncodePartOfAnImage(t *testing.T) {
	m := scene(40, 30)
	box := image.Rect(7, 5, 30, 28)
	part := m.SubImage(box).(*image.RGBA)
	whole := picture.Resample(m, box, box.Size())
	var a, b bytes.Buffer
	if err := errors.Join(picture.EncodePNG(&a, part), picture.EncodePNG(&b, whole)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("PNG differs")
	}
	if picture.JPEGAvailable && !bytes.Equal(encodeJPEG(t, part), encodeJPEG(t, whole)) {
		t.Error("JPEG differs")
	}
}

func TestEncodeNothing(t *testing.T) {
	empty := image.NewRGBA(image.Rectangle{})
	if err := picture.EncodePNG(&bytes.Buffer{}, empty); err == nil {
		t.Error("PNG: no error")
	}
	if err := picture.EncodeJPEG(&bytes.Buffer{}, empty); err == nil {
		t.Error("JPEG: no error")
	}
	if err := picture.EncodeJPEG(&bytes.Buffer{}, image.NewRGBA(image.Rect(0, 0, 70000, 1))); err == nil {
		t.Error("a JPEG of 70000 pixels: no error")
	}
	if _, err := picture.EncodeView(empty, 0); err == nil {
		t.Error("view: no error")
	}
	if _, err := picture.EncodeZoom(empty); err == nil {
		t.Error("zoom: no error")
	}
}

func noise(w, h int) *image.RGBA {
	r := rand.New(rand.NewPCG(1, 2))
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32()) | byte(i%4/3*255)
	}
	return m
}

func TestEncodeView(t *testing.T) {
	// On noise the two take the same bytes, so that the limits fall together.
	for name, encode := range map[string]func(*image.RGBA, int) (picture.Encoded, error){
		"view": picture.EncodeView, "screen": picture.EncodeScreen,
	} {
		t.Run(name, func(t *testing.T) {
			m := noise(100, 80)
			e, err := encode(m, 0)
			if err != nil {
				t.Fatal(err)
			}
			if e.MediaType != "image/png" || e.Size != image.Pt(100, 80) || !bytes.Equal(decode(t, e.Data).Image.Pix, m.Pix) {
				t.Errorf("%s, %v", e.MediaType, e.Size)
			}
			n := e.Base64Len()
			if want := (len(e.Data) + 2) / 3 * 4; n != want {
				t.Errorf("base64 length %d, want %d", n, want)
			}
			if e, err := encode(m, n); err != nil || e.MediaType != "image/png" {
				t.Errorf("at the limit: %s, %v", e.MediaType, err)
			}
			e, err = encode(m, n*9/10)
			if picture.JPEGAvailable {
				if err != nil || e.MediaType != "image/jpeg" || e.Base64Len() > n*9/10 || !decode(t, e.Data).Image.Rect.Eq(m.Rect) {
					t.Errorf("under the limit: %s, %v", e.MediaType, err)
				}
			} else if !errors.Is(err, picture.ErrEncodedTooLarge) {
				t.Errorf("under the limit: %v", err)
			}
			if _, err := encode(m, 2000); !errors.Is(err, picture.ErrEncodedTooLarge) {
				t.Errorf("far under: %v", err)
			}
		})
	}
}

// What is too large when it is made quickly may fit with more effort: then it stays PNG.
func TestEncodeScreenTriesHarder(t *testing.T) {
	m := scene(300, 200)
	small, err := picture.EncodeView(m, 0)
	if err != nil {
		t.Fatal(err)
	}
	quick, err := picture.EncodeScreen(m, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(quick.Data) <= len(small.Data) {
		t.Fatalf("quick is %d bytes, small %d", len(quick.Data), len(small.Data))
	}
	e, err := picture.EncodeScreen(m, small.Base64Len())
	if err != nil || !bytes.Equal(e.Data, small.Data) {
		t.Errorf("%s of %d bytes, %v; want the small one", e.MediaType, len(e.Data), err)
	}
}

func TestEncodeZoom(t *testing.T) {
	e, err := picture.EncodeZoom(scene(30, 20))
	if err != nil {
		t.Fatal(err)
	}
	want := picture.PNG
	if picture.JPEGAvailable {
		want = picture.JPEG
	}
	if p := decode(t, e.Data); p.Format != want || e.MediaType != want.MediaType() || e.Size != image.Pt(30, 20) {
		t.Errorf("%s, %s, %v", p.Format, e.MediaType, e.Size)
	}
}
