package picture_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/picture"
)

// decode decodes data and checks what holds for every picture.
func decode(t testing.TB, data []byte) *picture.Picture {
	t.Helper()
	p, err := picture.Decode(bytes.NewReader(data), nil)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, p)
	return p
}

// Bytes and a reader of them give the same picture, and the bytes stay as they
// are.
func TestDecodeBytes(t *testing.T) {
	for _, path := range list(t, filepath.Join(generated(t), "*")) {
		data := read(t, path)
		before := bytes.Clone(data)
		p, err := picture.DecodeBytes(data, nil)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
			continue
		}
		if !bytes.Equal(data, before) {
			t.Errorf("%s: the data was changed", filepath.Base(path))
		}
		if q := decode(t, data); q.Format != p.Format || q.Orientation != p.Orientation || !bytes.Equal(q.Image.Pix, p.Image.Pix) {
			t.Errorf("%s: another picture", filepath.Base(path))
		}
	}
}

func wellFormed(t testing.TB, p *picture.Picture) {
	t.Helper()
	m := p.Image
	w, h := m.Rect.Dx(), m.Rect.Dy()
	switch {
	case m.Rect.Min != image.Point{}:
		t.Errorf("the origin is %v", m.Rect.Min)
	case m.Stride != w*4 || len(m.Pix) != w*h*4:
		t.Errorf("stride %d and %d bytes for %d x %d", m.Stride, len(m.Pix), w, h)
	case w == 0 || h == 0:
		t.Error("no pixels")
	}
	for i := 3; i < len(m.Pix); i += 4 {
		if m.Pix[i] != 255 {
			t.Fatalf("pixel %d is not opaque", i/4)
		}
	}
	if p.Frames < 1 || p.Orientation < 1 || p.Orientation > 8 || p.Format == "" {
		t.Errorf("frames %d, orientation %d, format %q", p.Frames, p.Orientation, p.Format)
	}
}

// JPEG without libjpeg-turbo is decoded with other arithmetic than Pillow's.
func exact(path string) bool {
	return picture.JPEGAvailable || !strings.HasSuffix(path, ".jpg") && !strings.HasSuffix(path, ".jpeg") &&
		!strings.HasPrefix(filepath.Base(path), "jpeg")
}

// Every kind of file gives the pixels that Pillow gives, upright and on white.
func TestDecodeIsPillows(t *testing.T) {
	std := goroot(t)
	for _, group := range []struct{ name, pattern string }{
		{"made by Pillow", filepath.Join(generated(t), "*")},
		{"made by ImageMagick", "testdata/samples/*"},
		{"Go's", filepath.Join(std, "testdata", "*")},
		{"Go's PNG", filepath.Join(std, "png", "testdata", "[bg]*.png")},
		{"PngSuite", filepath.Join(std, "png", "testdata", "pngsuite", "*.png")},
		{"turned", filepath.Join(exifSamples, "f?-exif.jpg")},
		{"x/image PNG", filepath.Join(moreSamples, "*.png")},
		{"x/image JPEG", filepath.Join(moreSamples, "*.jpeg")},
		{"x/image TIFF", filepath.Join(moreSamples, "*.tiff")},
		{"x/image WebP", filepath.Join(moreSamples, "*.webp")},
		{"x/image BMP", filepath.Join(moreSamples, "*.bmp")},
	} {
		t.Run(group.name, func(t *testing.T) {
			files := list(t, group.pattern)
			want := pillowRead(t, files...)
			for _, path := range files {
				t.Run(filepath.Base(path), func(t *testing.T) {
					ref := want[path]
					if ref.Error != "" {
						t.Fatalf("Pillow: %s", ref.Error)
					}
					p, err := picture.Open(path, nil)
					if err != nil {
						t.Fatal(err)
					}
					wellFormed(t, p)
					if size := p.Image.Rect.Size(); size != image.Pt(ref.Size[0], ref.Size[1]) {
						t.Fatalf("size %v, want %v", size, ref.Size)
					}
					if exact(path) && sum(p.Image) != ref.SHA256 {
						t.Error("pixels differ from Pillow's")
					}
				})
			}
		})
	}
}

// scene is a picture without any symmetry.
func scene(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.SetRGBA(x, y, color.RGBA{byte(x * 255 / w), byte(y * 255 / h), byte(x*7 ^ y*3), 255})
		}
	}
	return m
}

func TestOrientationsGiveOnePicture(t *testing.T) {
	dir := generated(t)
	for _, kind := range []string{"png", "webp", "tif"} {
		upright := open(t, filepath.Join(dir, "turned1."+kind))
		for o := '1'; o <= '8'; o++ {
			p := open(t, filepath.Join(dir, "turned"+string(o)+"."+kind))
			if p.Orientation != int(o-'0') {
				t.Errorf("%s %c: orientation %d", kind, o, p.Orientation)
			}
			if !p.Image.Rect.Eq(upright.Image.Rect) || !bytes.Equal(p.Image.Pix, upright.Image.Pix) {
				t.Errorf("%s %c is another picture", kind, o)
			}
		}
	}
	// JPEG blocks lie differently in a turned file, so these are only close.
	for _, pattern := range []string{filepath.Join(dir, "turned%.jpg"), filepath.Join(exifSamples, "f%-exif.jpg")} {
		upright := open(t, strings.ReplaceAll(pattern, "%", "1"))
		for o := '1'; o <= '8'; o++ {
			p := open(t, strings.ReplaceAll(pattern, "%", string(o)))
			if !p.Image.Rect.Eq(upright.Image.Rect) {
				t.Errorf("%s %c: size %v", pattern, o, p.Image.Rect)
				continue
			}
			if n := psnr(p.Image, upright.Image); n < 30 {
				t.Errorf("%s %c: only %.1f dB alike", pattern, o, n)
			}
		}
	}
}

func TestBadEXIFMeansUpright(t *testing.T) {
	var file bytes.Buffer
	if err := picture.EncodePNG(&file, scene(9, 5)); err != nil {
		t.Fatal(err)
	}
	entry := "\x01\x12\x00\x03\x00\x00\x00\x01"
	for name, exif := range map[string]string{
		"empty":           "",
		"only a mark":     "MM\x00*",
		"beyond the end":  "MM\x00*\xff\xff\xff\xff",
		"cut":             "MM\x00*\x00\x00\x00\x08\x00\x05" + entry,
		"orientation 0":   "MM\x00*\x00\x00\x00\x08\x00\x01" + entry + "\x00\x00\x00\x00",
		"orientation 9":   "MM\x00*\x00\x00\x00\x08\x00\x01" + entry + "\x00\x09\x00\x00",
		"many of it":      "MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\xff\xff\xff\xff\x00\x06\x00\x00",
		"text for a type": "MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x02\x00\x00\x00\x01\x00\x06\x00\x00",
	} {
		p := decode(t, withChunk(file.Bytes(), "eXIf", exif))
		if p.Orientation != 1 || p.Image.Rect.Dx() != 9 {
			t.Errorf("%s: orientation %d, size %v", name, p.Orientation, p.Image.Rect)
		}
	}
	for _, path := range list(t, filepath.Join(exifSamples, "*.jpg")) {
		// These are cut behind their EXIF block: an error, and never a panic.
		if p, err := picture.Open(path, nil); err == nil {
			wellFormed(t, p)
		}
	}
}

func TestTransparencyIsWhite(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 256, 3))
	for a := range 256 {
		m.SetNRGBA(a, 0, color.NRGBA{0, 0, 0, byte(a)})
		m.SetNRGBA(a, 1, color.NRGBA{255, 255, 255, byte(a)})
		m.SetNRGBA(a, 2, color.NRGBA{200, 17, 101, byte(a)})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	got := decode(t, b.Bytes()).Image
	for a := range 256 {
		if c := got.RGBAAt(a, 0); c != (color.RGBA{byte(255 - a), byte(255 - a), byte(255 - a), 255}) {
			t.Errorf("black with alpha %d: %v", a, c)
		}
		if c := got.RGBAAt(a, 1); c != (color.RGBA{255, 255, 255, 255}) {
			t.Errorf("white with alpha %d: %v", a, c)
		}
	}
	// Values of Pillow's paste through a mask.
	for a, want := range map[int]color.RGBA{
		0: {255, 255, 255, 255}, 1: {255, 254, 254, 255}, 127: {228, 136, 178, 255},
		128: {227, 136, 178, 255}, 200: {212, 68, 134, 255}, 254: {200, 18, 102, 255}, 255: {200, 17, 101, 255},
	} {
		if c := got.RGBAAt(a, 2); c != want {
			t.Errorf("alpha %d: %v, want %v", a, c, want)
		}
	}
}

func TestSixteenBitsAreScaled(t *testing.T) {
	grey := image.NewGray16(image.Rect(0, 0, 256, 2))
	for x := range 256 {
		grey.SetGray16(x, 0, color.Gray16{uint16(x * 257)})
		grey.SetGray16(x, 1, color.Gray16{uint16(x<<8 | 0x80)})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, grey); err != nil {
		t.Fatal(err)
	}
	m := decode(t, b.Bytes()).Image
	for x := range 256 {
		for y := range 2 {
			if c := m.RGBAAt(x, y); c != (color.RGBA{byte(x), byte(x), byte(x), 255}) {
				t.Errorf("%d, row %d: %v", x, y, c)
			}
		}
	}
}

func TestFramesAreCounted(t *testing.T) {
	dir := generated(t)
	for name, want := range map[string]string{
		"apng.png":      "the first of 3 frames of an animation is used",
		"animated.gif":  "the first of 3 frames of an animation is used",
		"animated.webp": "the first of 3 frames of an animation is used",
		"pages.tif":     "the first of 3 pages is used",
	} {
		p := open(t, filepath.Join(dir, name))
		if p.Frames != 3 || !slices.Contains(p.Notes, want) {
			t.Errorf("%s: %d frames, notes %q", name, p.Frames, p.Notes)
		}
	}
	for _, name := range []string{"rgb.png", "p.gif", "lossy.webp", "rgb-raw.tif", "rgb.bmp", "plain.jpg", "progressive.jpg"} {
		if p := open(t, filepath.Join(dir, name)); p.Frames != 1 || len(p.Notes) != 0 {
			t.Errorf("%s: %d frames, notes %q", name, p.Frames, p.Notes)
		}
	}
}

// A GIF whose first frame is smaller than, or reaches beyond, its screen.
func TestGIFScreen(t *testing.T) {
	file := func(frame string) []byte {
		const frameData = "\x02\x02\x44\x01\x00" // one pixel of colour 0
		return []byte("GIF89a\x03\x00\x02\x00\x80\x00\x00" + "\x0a\x14\x1e\xff\x00\x00" + frame + frameData + "\x3b")
	}
	m := decode(t, file("\x2c\x01\x00\x01\x00\x01\x00\x01\x00\x00")).Image
	want := image.NewRGBA(image.Rect(0, 0, 3, 2))
	for i := range want.Pix {
		want.Pix[i] = 255
	}
	want.SetRGBA(1, 1, color.RGBA{10, 20, 30, 255})
	if !m.Rect.Eq(want.Rect) || !bytes.Equal(m.Pix, want.Pix) {
		t.Errorf("a small frame: %v %v", m.Rect, m.Pix)
	}
	m = decode(t, file("\x2c\x05\x00\x01\x00\x01\x00\x01\x00\x00")).Image
	if m.Rect != image.Rect(0, 0, 6, 2) || m.RGBAAt(5, 1) != (color.RGBA{10, 20, 30, 255}) || m.RGBAAt(0, 0) != (color.RGBA{255, 255, 255, 255}) {
		t.Errorf("a frame beyond the screen: %v %v", m.Rect, m.Pix)
	}
}

func TestBMPRunLengths(t *testing.T) {
	m := decode(t, runLengths()).Image
	names := map[color.RGBA]byte{{255, 0, 0, 255}: 'r', {0, 255, 0, 255}: 'g', {0, 0, 255, 255}: 'b'}
	got := ""
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			got += string(names[m.RGBAAt(x, y)])
		}
		got += "\n"
	}
	if want := "rrrgg\nbgbrr\ngbgbg\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A progressive JPEG that ends properly, but after four of its ten scans.
func TestJPEGWithoutItsDetailIsNoted(t *testing.T) {
	if !picture.JPEGAvailable {
		return // the standard library does not tell
	}
	p := open(t, filepath.Join(goroot(t), "testdata", "video-001.progressive.truncated.jpeg"))
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "lacks its finest detail") {
		t.Errorf("notes %q", p.Notes)
	}
}

// CMYK is the right way up whether the file says Adobe or not.
func TestCMYKIsUpright(t *testing.T) {
	dir := generated(t)
	want := open(t, filepath.Join(dir, "rgb.png")).Image
	for _, name := range []string{"cmyk.jpg", "cmyk-progressive.jpg", "cmyk-without-adobe.jpg", "cmyk-raw.tif"} {
		if n := psnr(open(t, filepath.Join(dir, name)).Image, want); n < 20 {
			t.Errorf("%s is only %.1f dB like the picture it was made from", name, n)
		}
	}
	std := filepath.Join(goroot(t), "testdata")
	if n := psnr(open(t, filepath.Join(std, "video-001.cmyk.jpeg")).Image, open(t, filepath.Join(std, "video-001.cmyk.png")).Image); n < 30 {
		t.Errorf("Go's sample is only %.1f dB like its PNG", n)
	}
}
