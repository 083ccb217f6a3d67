// Package webpio reads the first picture of a WebP file into opaque RGBA. The
// container is read here; the two bitstreams are decoded by golang.org/x/image.
// Lossy pixels are turned into RGB as libwebp does it (studio-range BT.601 with
// smooth upsampling), which x/image leaves to a full-range conversion that
// gives other colours.
package webpio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"
	"golang.org/x/image/webp"

	"github.com/loupe-tools/loupe/picture/internal/pngio"
)

// Errors that the functions of this package wrap.
var (
	ErrCorrupt   = errors.New("corrupt WebP data")
	ErrTruncated = errors.New("the WebP data ends too early")
)

// File is a parsed WebP file. It refers to the bytes that it was parsed from.
type File struct {
	Width, Height int    // of the canvas, in pixels
	Frames        int    // 1 for a still picture
	EXIF          []byte // nil if none

	frame image.Rectangle // of the first picture, on the canvas
	alpha []byte          // content of the ALPH chunk, nil if none
	lossy []byte          // content of the VP8 chunk, or
	exact []byte          // content of the VP8L chunk
}

// chunks calls f for each chunk in data.
func chunks(data []byte, f func(kind string, body []byte) error) error {
	for len(data) > 0 {
		if len(data) < 8 {
			return fmt.Errorf("%w: it ends inside a chunk header", ErrTruncated)
		}
		n := int64(binary.LittleEndian.Uint32(data[4:]))
		if n > int64(len(data)-8) {
			return fmt.Errorf("%w: it ends inside chunk %q", ErrTruncated, data[:4])
		}
		if err := f(string(data[:4]), data[8:8+n]); err != nil {
			return err
		}
		data = data[8+n:]
		if n%2 == 1 && len(data) > 0 {
			data = data[1:]
		}
	}
	return nil
}

// Parse reads the container. Bytes after it are ignored.
func Parse(data []byte) (*File, error) {
	if len(data) < 12 || string(data[:4]) != "RIFF" || string(data[8:12]) != "WEBP" {
		return nil, fmt.Errorf("%w: no RIFF header", ErrCorrupt)
	}
	n := int64(binary.LittleEndian.Uint32(data[4:]))
	if n > int64(len(data)-8) {
		return nil, fmt.Errorf("%w: %d of %d bytes are there", ErrTruncated, len(data), n+8)
	}
	if n < 12 {
		return nil, fmt.Errorf("%w: nothing in it", ErrCorrupt)
	}
	f := &File{}
	extended, animated := false, false
	err := chunks(data[12:8+n], func(kind string, body []byte) error {
		switch kind {
		case "VP8X":
			if len(body) < 10 || extended {
				return fmt.Errorf("%w: bad VP8X chunk", ErrCorrupt)
			}
			extended, animated = true, body[0]&2 != 0
			f.Width, f.Height = 1+int24(body[4:]), 1+int24(body[7:])
		case "ANMF":
			if f.Frames++; f.Frames > 1 {
				return nil
			}
			return f.firstFrame(body)
		case "EXIF":
			if f.EXIF == nil {
				f.EXIF = body
			}
		case "ALPH", "VP8 ", "VP8L":
			if !animated {
				return f.bitstream(kind, body)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if f.lossy == nil && f.exact == nil {
		return nil, fmt.Errorf("%w: no picture in it", ErrCorrupt)
	}
	f.Frames = max(f.Frames, 1)
	size, err := f.size()
	if err != nil {
		return nil, err
	}
	if !extended {
		f.Width, f.Height = size.X, size.Y
	}
	if !animated {
		f.frame = image.Rect(0, 0, f.Width, f.Height)
	}
	if f.frame.Size() != size || !f.frame.In(image.Rect(0, 0, f.Width, f.Height)) {
		return nil, fmt.Errorf("%w: the picture is %d x %d where %d x %d are announced", ErrCorrupt,
			size.X, size.Y, f.frame.Dx(), f.frame.Dy())
	}
	return f, nil
}

func int24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// firstFrame takes the bitstream out of an ANMF chunk.
func (f *File) firstFrame(body []byte) error {
	if len(body) < 16 {
		return fmt.Errorf("%w: bad ANMF chunk", ErrCorrupt)
	}
	x, y := 2*int24(body), 2*int24(body[3:])
	f.frame = image.Rect(x, y, x+1+int24(body[6:]), y+1+int24(body[9:]))
	return chunks(body[16:], f.bitstream)
}

// bitstream notes a chunk that holds pixels. A second one is ignored.
func (f *File) bitstream(kind string, body []byte) error {
	if f.lossy != nil || f.exact != nil {
		return nil
	}
	switch kind {
	case "ALPH":
		f.alpha = body
	case "VP8 ":
		f.lossy = body
	case "VP8L":
		f.exact = body
	}
	return nil
}

// size reads the size from the bitstream's own header.
func (f *File) size() (image.Point, error) {
	switch b := f.lossy; {
	case len(f.exact) >= 5 && f.exact[0] == 0x2F:
		v := binary.LittleEndian.Uint32(f.exact[1:])
		return image.Pt(1+int(v&0x3FFF), 1+int(v>>14&0x3FFF)), nil
	case len(b) >= 10 && b[0]&1 == 0 && b[3] == 0x9D && b[4] == 0x01 && b[5] == 0x2A:
		w, h := int(binary.LittleEndian.Uint16(b[6:])&0x3FFF), int(binary.LittleEndian.Uint16(b[8:])&0x3FFF)
		if w > 0 && h > 0 {
			return image.Pt(w, h), nil
		}
	}
	return image.Point{}, fmt.Errorf("%w: bad bitstream header", ErrCorrupt)
}

// Decode returns the canvas with the first picture on it, composited onto
// white.
func (f *File) Decode() (*image.RGBA, error) {
	m := image.NewRGBA(image.Rect(0, 0, f.Width, f.Height))
	if f.frame != m.Rect {
		for i := range m.Pix {
			m.Pix[i] = 255
		}
	}
	out := m.SubImage(f.frame).(*image.RGBA)
	var err error
	if f.exact != nil {
		err = f.decodeExact(out)
	} else {
		err = f.decodeLossy(out)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

func bitstreamError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: not enough pixel data", ErrCorrupt)
	}
	return fmt.Errorf("%w: %v", ErrCorrupt, err)
}

func (f *File) decodeExact(out *image.RGBA) error {
	src, err := vp8l.Decode(bytes.NewReader(f.exact))
	if err != nil {
		return bitstreamError(err)
	}
	m, ok := src.(*image.NRGBA)
	if !ok || m.Rect.Size() != out.Rect.Size() {
		return fmt.Errorf("%w: unexpected picture", ErrCorrupt)
	}
	for y := range m.Rect.Dy() {
		copyOverWhite(out.Pix[y*out.Stride:], m.Pix[y*m.Stride:y*m.Stride+m.Rect.Dx()*4])
	}
	return nil
}

func copyOverWhite(dst, src []byte) {
	for len(src) >= 4 && len(dst) >= 4 {
		a := src[3]
		if a == 255 {
			dst[0], dst[1], dst[2] = src[0], src[1], src[2]
		} else {
			dst[0], dst[1], dst[2] = pngio.OverWhite(src[0], a), pngio.OverWhite(src[1], a), pngio.OverWhite(src[2], a)
		}
		dst[3] = 255
		dst, src = dst[4:], src[4:]
	}
}

func (f *File) decodeLossy(out *image.RGBA) error {
	if f.alpha == nil {
		d := vp8.NewDecoder()
		d.Init(bytes.NewReader(f.lossy), len(f.lossy))
		if _, err := d.DecodeFrameHeader(); err != nil {
			return bitstreamError(err)
		}
		m, err := d.DecodeFrame()
		if err != nil {
			return bitstreamError(err)
		}
		return toRGB(out, m)
	}
	src, err := webp.Decode(f.withAlpha())
	if err != nil {
		return bitstreamError(err)
	}
	m, ok := src.(*image.NYCbCrA)
	if !ok {
		return fmt.Errorf("%w: unexpected picture", ErrCorrupt)
	}
	if err := toRGB(out, &m.YCbCr); err != nil {
		return err
	}
	for y := range out.Rect.Dy() {
		row := out.Pix[y*out.Stride : y*out.Stride+out.Rect.Dx()*4]
		alpha := m.A[y*m.AStride:]
		for i, a := range alpha[:out.Rect.Dx()] {
			if a != 255 {
				for c := range 3 {
					row[i*4+c] = pngio.OverWhite(row[i*4+c], a)
				}
			}
		}
	}
	return nil
}

// withAlpha is a file of its own with just the frame and its alpha, since
// x/image has no other way in for these two.
func (f *File) withAlpha() io.Reader {
	chunk := func(kind string, n int) []byte {
		return binary.LittleEndian.AppendUint32([]byte(kind), uint32(n))
	}
	padding := func(body []byte) []byte { return make([]byte, len(body)%2) }
	var head [10]byte
	head[0] = 1 << 4 // has alpha
	w, h := f.frame.Dx()-1, f.frame.Dy()-1
	head[4], head[5], head[6] = byte(w), byte(w>>8), byte(w>>16)
	head[7], head[8], head[9] = byte(h), byte(h>>8), byte(h>>16)
	parts := [][]byte{
		[]byte("WEBP"), chunk("VP8X", len(head)), head[:],
		chunk("ALPH", len(f.alpha)), f.alpha, padding(f.alpha),
		chunk("VP8 ", len(f.lossy)), f.lossy, padding(f.lossy),
	}
	total := 0
	readers := []io.Reader{nil}
	for _, p := range parts {
		total += len(p)
		readers = append(readers, bytes.NewReader(p))
	}
	readers[0] = bytes.NewReader(chunk("RIFF", total))
	return io.MultiReader(readers...)
}

// toRGB converts 4:2:0 pixels. Each colour sample is weighted 9:3:3:1 with its
// neighbours, in the order of roundings that libwebp has.
func toRGB(out *image.RGBA, m *image.YCbCr) error {
	w, h := out.Rect.Dx(), out.Rect.Dy()
	if m.Rect.Dx() != w || m.Rect.Dy() != h || m.SubsampleRatio != image.YCbCrSubsampleRatio420 {
		return fmt.Errorf("%w: unexpected picture", ErrCorrupt)
	}
	half := (w + 1) / 2
	lines := (h + 1) / 2
	for y := range h {
		// The nearer line of colour samples and the farther one.
		near := y / 2
		far := near - 1
		if y%2 == 1 {
			far = near + 1
		}
		far = min(max(far, 0), lines-1)
		luma := m.Y[y*m.YStride : y*m.YStride+w]
		u := [2][]byte{m.Cb[near*m.CStride:][:half], m.Cb[far*m.CStride:][:half]}
		v := [2][]byte{m.Cr[near*m.CStride:][:half], m.Cr[far*m.CStride:][:half]}
		dst := out.Pix[y*out.Stride : y*out.Stride+w*4]
		for x := range luma {
			i := x / 2
			j := i - 1
			if x%2 == 1 {
				j = i + 1
			}
			var cb, cr int
			if j < 0 || j >= half {
				cb = (3*int(u[0][i]) + int(u[1][i]) + 2) >> 2
				cr = (3*int(v[0][i]) + int(v[1][i]) + 2) >> 2
			} else {
				cb = smooth(int(u[0][i]), int(u[0][j]), int(u[1][i]), int(u[1][j]))
				cr = smooth(int(v[0][i]), int(v[0][j]), int(v[1][i]), int(v[1][j]))
			}
			d := dst[x*4 : x*4+4 : x*4+4]
			luma := int(luma[x]) * 19077 >> 8
			d[0] = clip6(luma + cr*26149>>8 - 14234)
			d[1] = clip6(luma - cb*6419>>8 - cr*13320>>8 + 8708)
			d[2] = clip6(luma + cb*33050>>8 - 17685)
			d[3] = 255
		}
	}
	return nil
}

// smooth weighs the nearest sample, its neighbour across, along and diagonally.
// It is (9a + 3b + 3c + d + 8) / 16, rounded down twice on the way.
func smooth(near, across, along, diagonal int) int {
	return ((near+across+along+diagonal+8+2*(across+along))>>3 + near) >> 1
}

// clip6 drops six fractional bits.
func clip6(v int) byte {
	if v < 0 {
		return 0
	}
	return byte(min(v>>6, 255))
}
