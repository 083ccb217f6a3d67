package pngio

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"image"
	"image/color"
	"image/png"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// write makes a file of the given samples, which are bits per pixel apart in
// rows, filtered in one of the five ways.
func write(t *rapid.T, h Header, bits int, pixel func(x, y int) []byte, palette, trns []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(h.Width))
	head = binary.BigEndian.AppendUint32(head, uint32(h.Height))
	head = append(head, byte(h.depth), byte(h.color), 0, 0, 0)
	passes := []pass{{0, 0, 1, 1}}
	if h.interlaced {
		head[12] = 1
		passes = adam7[:]
	}
	var raw bytes.Buffer
	z := zlib.NewWriter(&raw)
	for _, p := range passes {
		w := (h.Width - p.x + p.dx - 1) / p.dx
		if w <= 0 {
			continue
		}
		n := (w*bits + 7) / 8
		up := make([]byte, n)
		for y := p.y; y < h.Height; y += p.dy {
			row := make([]byte, n)
			for i := range w {
				v := pixel(p.x+i*p.dx, y)
				if bits >= 8 {
					copy(row[i*bits/8:], v)
				} else {
					row[i*bits/8] |= v[0] << (8 - bits - i*bits%8)
				}
			}
			kind := rapid.IntRange(0, 4).Draw(t, "filter")
			z.Write([]byte{byte(kind)})
			step := max(1, bits/8)
			for i, v := range row {
				left, corner := 0, 0
				if i >= step {
					left, corner = int(row[i-step]), int(up[i-step])
				}
				switch kind {
				case filterSub:
					v -= byte(left)
				case filterUp:
					v -= up[i]
				case filterAverage:
					v -= byte((left + int(up[i])) / 2)
				case filterPaeth:
					v -= byte(paeth(left, int(up[i]), corner))
				}
				z.Write([]byte{v})
			}
			up = row
		}
	}
	z.Close()
	var file bytes.Buffer
	file.WriteString(Signature)
	writeChunk(&file, "IHDR", head)
	if palette != nil {
		writeChunk(&file, "PLTE", palette)
	}
	if trns != nil {
		writeChunk(&file, "tRNS", trns)
	}
	cut := rapid.IntRange(0, raw.Len()).Draw(t, "cut")
	writeChunk(&file, "IDAT", raw.Bytes()[:cut])
	writeChunk(&file, "IDAT", raw.Bytes()[cut:])
	writeChunk(&file, "IEND", nil)
	return file.Bytes()
}

// Every combination of colour type, depth, filters, interlacing and
// transparency is read as the standard library reads it.
func TestDecodeIsTheStandardLibrarys(t *testing.T) {
	kinds := []struct{ color, depth, samples int }{
		{grey, 1, 1}, {grey, 2, 1}, {grey, 4, 1}, {grey, 8, 1}, {grey, 16, 1},
		{rgb, 8, 3}, {rgb, 16, 3},
		{palette, 1, 1}, {palette, 2, 1}, {palette, 4, 1}, {palette, 8, 1},
		{greyAlpha, 8, 2}, {greyAlpha, 16, 2}, {rgbAlpha, 8, 4}, {rgbAlpha, 16, 4},
	}
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(kinds).Draw(t, "kind")
		h := Header{
			Width: rapid.IntRange(1, 20).Draw(t, "w"), Height: rapid.IntRange(1, 20).Draw(t, "h"),
			depth: k.depth, color: k.color, interlaced: rapid.Bool().Draw(t, "interlaced"),
		}
		bits := k.depth * k.samples
		n := max(1, bits/8)
		samples := rapid.SliceOfN(rapid.Byte(), h.Width*h.Height*n, h.Width*h.Height*n).Draw(t, "samples")
		pixel := func(x, y int) []byte {
			v := samples[(y*h.Width+x)*n:][:n]
			if bits < 8 {
				return []byte{v[0] & (1<<bits - 1)}
			}
			return v
		}
		var colors, trns []byte
		switch k.color {
		case palette:
			colors = rapid.SliceOfN(rapid.Byte(), 3<<k.depth, 3<<k.depth).Draw(t, "palette")
			if rapid.Bool().Draw(t, "trns") {
				trns = rapid.SliceOfN(rapid.Byte(), 1, 1<<k.depth).Draw(t, "alphas")
			}
		case grey, rgb:
			if rapid.Bool().Draw(t, "trns") { // the colour of some pixel
				for i := range k.samples {
					v := pixel(h.Width/2, h.Height/2)
					if k.depth == 16 {
						trns = append(trns, v[i*2:i*2+2]...)
					} else {
						trns = append(trns, 0, v[i])
					}
				}
			}
		}
		file := write(t, h, bits, pixel, colors, trns)
		want, err := png.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Decode()
		if err != nil {
			t.Fatal(err)
		}
		for y := range h.Height {
			for x := range h.Width {
				c := color.NRGBA64Model.Convert(want.At(x, y)).(color.NRGBA64)
				a := byte(c.A >> 8)
				w := color.RGBA{OverWhite(byte(c.R>>8), a), OverWhite(byte(c.G>>8), a), OverWhite(byte(c.B>>8), a), 255}
				if g := got.RGBAAt(x, y); !near(g, w, c.A) {
					t.Fatalf("(%d,%d) is %v, want %v", x, y, g, w)
				}
			}
		}
	})
}

// near allows for the detour of the expected value over premultiplied colours.
func near(a, b color.RGBA, alpha uint16) bool {
	if alpha == 0 || alpha == 0xFFFF {
		return a == b
	}
	for _, d := range []int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
		if d < -1 || d > 1 {
			return false
		}
	}
	return true
}

// The specification's own wording, for every input.
func TestPaeth(t *testing.T) {
	for a := range 256 {
		for b := range 256 {
			for c := range 256 {
				p := a + b - c
				want := c
				if pa, pb, pc := abs(p-a), abs(p-b), abs(p-c); pa <= pb && pa <= pc {
					want = a
				} else if pb <= pc {
					want = b
				}
				if got := paeth(a, b, c); got != want {
					t.Fatalf("paeth(%d, %d, %d) = %d, want %d", a, b, c, got, want)
				}
			}
		}
	}
}

// A large file that breaks off anywhere is an error, and nothing is left
// running.
func TestLargeFileBreaksOff(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 900, 900))
	for i := range m.Pix {
		m.Pix[i] = byte(i * i >> 7)
	}
	var file bytes.Buffer
	if err := Encode(&file, m, Small); err != nil {
		t.Fatal(err)
	}
	f, err := Parse(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	all := f.pixels
	for n := range all {
		for _, cut := range []int{0, len(all[n]) / 2, len(all[n]) - 1} {
			f.pixels = append(append([][]byte{}, all[:n]...), all[n][:cut])
			if _, err := f.Decode(); !errors.Is(err, ErrCorrupt) {
				t.Errorf("part %d cut at %d: %v", n, cut, err)
			}
		}
	}
	f.pixels = all
	for _, height := range []int{899, 901, 2000} {
		f.Header.Height = height
		if _, err := f.Decode(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("read as %d rows: %v", height, err)
		}
	}
	goleak.VerifyNone(t)
}

func TestJoinAdler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOf(rapid.Byte()).Draw(t, "a")
		b := bytes.Repeat(rapid.SliceOf(rapid.Byte()).Draw(t, "b"), rapid.IntRange(1, 3000).Draw(t, "n"))
		if got := joinAdler(adler32.Checksum(a), adler32.Checksum(b), len(b)); got != adler32.Checksum(append(a, b...)) {
			t.Fatalf("%#x", got)
		}
	})
}

// An image of many strips is one valid stream, the same on any number of
// processors.
func TestEncodeStrips(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 1500, 1300))
	for i := range m.Pix {
		m.Pix[i] = byte(i*i>>9) | byte(i%4/3*255)
	}
	for _, effort := range []Effort{Small, Quick} {
		var file bytes.Buffer
		if err := Encode(&file, m, effort); err != nil {
			t.Fatal(err)
		}
		got, err := png.Decode(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.(*image.RGBA).Pix, m.Pix) {
			t.Errorf("effort %d: other pixels", effort)
		}
	}
}

// The filters work on eight bytes at a time; one at a time gives the same.
func TestFilterWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "pixels") * 3
		few := rapid.SampledFrom([]byte{0, 0, 0, 1, 127, 128, 129, 255})
		row := rapid.SliceOfN(few, n, n).Draw(t, "row")
		up := rapid.SliceOfN(few, n, n).Draw(t, "up")
		repeat := rapid.IntRange(1, 300).Draw(t, "repeat")
		row, up = bytes.Repeat(row, repeat), bytes.Repeat(up, repeat)
		n = len(row)
		wantUp, wantPaeth := make([]byte, n), make([]byte, n)
		sumRow, sumUp, sumPaeth := 0, 0, 0
		for i := range row {
			left, corner := 0, 0
			if i >= 3 {
				left, corner = int(row[i-3]), int(up[i-3])
			}
			wantUp[i], wantPaeth[i] = row[i]-up[i], row[i]-byte(paeth(left, int(up[i]), corner))
			sumRow += size(row[i])
			sumUp += size(wantUp[i])
			sumPaeth += size(wantPaeth[i])
		}
		if got := magnitude(row); got != sumRow {
			t.Fatalf("the magnitude is %d, want %d", got, sumRow)
		}
		out := make([]byte, n)
		if got := difference(out, row, up); got != sumUp || !bytes.Equal(out, wantUp) {
			t.Fatalf("the difference is %v with the sum %d, want %v with %d", out, got, wantUp, sumUp)
		}
		if !predict(out, row, up, sumPaeth+1) || !bytes.Equal(out, wantPaeth) {
			t.Fatalf("the prediction leaves %v, want %v", out, wantPaeth)
		}
		if n > 0 && sumPaeth > 0 && predict(out, row, up, sumPaeth) {
			t.Fatal("a prediction is taken that is no better")
		}
	})
}
