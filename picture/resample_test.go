package picture_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/picture"
)

// rgb returns the pixels of m without alpha, row by row.
func rgb(m *image.RGBA) []byte {
	var out []byte
	for y := m.Rect.Min.Y; y < m.Rect.Max.Y; y++ {
		for x := m.Rect.Min.X; x < m.Rect.Max.X; x++ {
			o := m.PixOffset(x, y)
			out = append(out, m.Pix[o:o+3]...)
		}
	}
	return out
}

func sum(m *image.RGBA) string {
	h := sha256.Sum256(rgb(m))
	return hex.EncodeToString(h[:])
}

// open decodes a file under testdata, or one with an absolute path.
func open(t testing.TB, path string) *picture.Picture {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join("testdata", path)
	}
	p, err := picture.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The cases were made with Pillow: image.crop(box).resize(size, LANCZOS).
func TestResampleIsPillows(t *testing.T) {
	data, err := os.ReadFile("testdata/resample/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Input, SHA256, Output string
		Box                   [4]int
		Size                  [2]int
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 60 {
		t.Fatalf("only %d cases", len(cases))
	}
	for i, c := range cases {
		t.Run(fmt.Sprintf("%d-%s", i, c.Input), func(t *testing.T) {
			src := open(t, "resample/"+c.Input).Image
			size := image.Pt(c.Size[0], c.Size[1])
			got := picture.Resample(src, image.Rect(c.Box[0], c.Box[1], c.Box[2], c.Box[3]), size)
			if got.Rect.Size() != size {
				t.Fatalf("size %v, want %v", got.Rect.Size(), size)
			}
			if sum(got) != c.SHA256 {
				t.Errorf("pixels differ from Pillow's")
			}
			if !got.Opaque() {
				t.Error("not opaque")
			}
			if c.Output != "" {
				if want := open(t, "resample/"+c.Output).Image; sum(want) != sum(got) {
					t.Error("pixels differ from the stored result")
				}
			}
		})
	}
}

func TestResampleWithoutMeaningIsEmpty(t *testing.T) {
	src := image.NewRGBA(image.Rect(0, 0, 10, 10))
	for _, c := range []struct {
		name string
		box  image.Rectangle
		size image.Point
	}{
		{"empty box", image.Rect(3, 3, 3, 8), image.Pt(5, 5)},
		{"inside out", image.Rectangle{Min: image.Pt(5, 5), Max: image.Pt(2, 2)}, image.Pt(5, 5)},
		{"right of the image", image.Rect(5, 0, 11, 10), image.Pt(5, 5)},
		{"left of the image", image.Rect(-1, 0, 5, 5), image.Pt(5, 5)},
		{"no width", image.Rect(0, 0, 5, 5), image.Pt(0, 5)},
		{"negative height", image.Rect(0, 0, 5, 5), image.Pt(5, -5)},
		{"a size that overflows", image.Rect(0, 0, 5, 5), image.Pt(1<<40, 1<<40)},
	} {
		if got := picture.Resample(src, c.box, c.size); !got.Rect.Empty() {
			t.Errorf("%s: got %v", c.name, got.Rect)
		}
	}
	if got := picture.Resample(nil, image.Rect(0, 0, 1, 1), image.Pt(1, 1)); !got.Rect.Empty() {
		t.Error("a nil image: got pixels")
	}
}

// anyImage draws a small image whose alpha is 255.
func anyImage(t *rapid.T, most int) *image.RGBA {
	w, h := rapid.IntRange(1, most).Draw(t, "w"), rapid.IntRange(1, most).Draw(t, "h")
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	copy(m.Pix, rapid.SliceOfN(rapid.Byte(), len(m.Pix), len(m.Pix)).Draw(t, "pixels"))
	for i := 3; i < len(m.Pix); i += 4 {
		m.Pix[i] = 255
	}
	return m
}

func TestResampleInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := anyImage(t, 12)
		w, h := src.Rect.Dx(), src.Rect.Dy()
		x, y := rapid.IntRange(0, w-1).Draw(t, "x"), rapid.IntRange(0, h-1).Draw(t, "y")
		box := image.Rect(x, y, rapid.IntRange(x+1, w).Draw(t, "x1"), rapid.IntRange(y+1, h).Draw(t, "y1"))
		size := image.Pt(rapid.IntRange(1, 40).Draw(t, "sw"), rapid.IntRange(1, 40).Draw(t, "sh"))

		if same := picture.Resample(src, box, box.Size()); sum(same) != sum(src.SubImage(box).(*image.RGBA)) {
			t.Fatal("an unchanged size changes pixels")
		}
		got := sum(picture.Resample(src, box, size))
		// Nothing outside the box has a say.
		cut := picture.Resample(src, box, box.Size())
		if sum(picture.Resample(cut, cut.Rect, size)) != got {
			t.Fatal("a box differs from the same pixels cut out")
		}
		// The coordinates of the source have none either.
		moved := &image.RGBA{Pix: src.Pix, Stride: src.Stride, Rect: src.Rect.Add(image.Pt(-7, 30))}
		if sum(picture.Resample(moved, box.Add(image.Pt(-7, 30)), size)) != got {
			t.Fatal("moving the source changes pixels")
		}
	})
}
