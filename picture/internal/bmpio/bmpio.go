// Package bmpio reads BMP files into opaque RGBA: headers of OS/2 and Windows
// from 12 to 124 bytes, 1 to 32 bits a pixel, bit fields and run lengths.
package bmpio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"math/bits"

	"github.com/loupe-tools/loupe/picture/internal/pngio"
)

// Errors that the functions of this package wrap.
var (
	ErrCorrupt     = errors.New("corrupt BMP data")
	ErrTruncated   = errors.New("the BMP data ends too early")
	ErrUnsupported = errors.New("a kind of BMP that is not supported")
)

// Compression methods of the header.
const (
	plain        = 0
	runLength8   = 1
	runLength4   = 2
	fields       = 3
	jpegInside   = 4
	pngInside    = 5
	fieldsAlpha  = 6
	fileHeader   = 14
	coreHeader   = 12
	infoHeader   = 40
	masksHeader  = 52 // from this size on the header holds masks
	alphaHeader  = 56 // and from this one an alpha mask
	largestImage = 1 << 31
)

// File is a parsed header. It refers to the bytes that it was parsed from.
type File struct {
	Width, Height int // pixels

	topDown     bool
	depth       int // bits per pixel
	compression int
	palette     [256][4]byte
	masks       [4]uint32 // red, green, blue, alpha
	pixels      []byte
}

// Parse reads the headers and the palette.
func Parse(data []byte) (*File, error) {
	if len(data) < fileHeader+4 || string(data[:2]) != "BM" {
		return nil, fmt.Errorf("%w: no header", ErrCorrupt)
	}
	offset := int64(binary.LittleEndian.Uint32(data[10:]))
	size := int64(binary.LittleEndian.Uint32(data[14:]))
	if size < coreHeader || size > 124 {
		return nil, fmt.Errorf("%w: a header of %d bytes", ErrUnsupported, size)
	}
	if int64(len(data)) < fileHeader+size {
		return nil, fmt.Errorf("%w: it ends inside the header", ErrTruncated)
	}
	h := make([]byte, 124)
	copy(h, data[fileHeader:fileHeader+size])
	f := &File{}
	used, planes, entry := int64(0), 0, 4
	if size == coreHeader {
		f.Width, f.Height = int(binary.LittleEndian.Uint16(h[4:])), int(binary.LittleEndian.Uint16(h[6:]))
		planes, f.depth = int(binary.LittleEndian.Uint16(h[8:])), int(binary.LittleEndian.Uint16(h[10:]))
		entry = 3
	} else {
		f.Width, f.Height = int(int32(binary.LittleEndian.Uint32(h[4:]))), int(int32(binary.LittleEndian.Uint32(h[8:])))
		planes, f.depth = int(binary.LittleEndian.Uint16(h[12:])), int(binary.LittleEndian.Uint16(h[14:]))
		f.compression = int(int32(binary.LittleEndian.Uint32(h[16:])))
		used = int64(binary.LittleEndian.Uint32(h[32:]))
	}
	if f.Height < 0 {
		f.Height, f.topDown = -f.Height, true
	}
	if f.Width <= 0 || f.Height <= 0 || f.Width >= largestImage || f.Height >= largestImage {
		return nil, fmt.Errorf("%w: impossible size %d x %d", ErrCorrupt, f.Width, f.Height)
	}
	if planes != 1 {
		return nil, fmt.Errorf("%w: %d planes", ErrCorrupt, planes)
	}
	ok := false
	switch f.compression {
	case plain:
		switch f.depth {
		case 1, 2, 4, 8, 16, 24, 32:
			ok = true
		}
	case runLength8:
		ok = f.depth == 8 && !f.topDown
	case runLength4:
		ok = f.depth == 4 && !f.topDown
	case fields, fieldsAlpha:
		ok = (f.depth == 16 || f.depth == 32) && size >= infoHeader && size != 64
	case jpegInside, pngInside:
		return nil, fmt.Errorf("%w: a JPEG or PNG file wrapped in a BMP header", ErrUnsupported)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %d bits a pixel with compression %d", ErrUnsupported, f.depth, f.compression)
	}

	after := data[fileHeader+size:]
	if f.depth == 16 {
		f.masks = [4]uint32{0x7C00, 0x03E0, 0x001F}
	} else {
		f.masks = [4]uint32{0xFF0000, 0x00FF00, 0x0000FF}
	}
	if f.compression == fields || f.compression == fieldsAlpha {
		n := 3
		if f.compression == fieldsAlpha || size >= alphaHeader {
			n = 4
		}
		from := h[40:]
		if size < masksHeader { // they follow the header
			if len(after) < n*4 {
				return nil, fmt.Errorf("%w: it ends inside the masks", ErrTruncated)
			}
			from, after = after[:n*4], after[n*4:]
		}
		for i := range n {
			f.masks[i] = binary.LittleEndian.Uint32(from[i*4:])
		}
	}
	if f.depth <= 8 {
		n := int64(1) << f.depth
		if used > 0 {
			n = min(n, used)
		}
		// Some writers leave the table shorter than they say.
		if room := offset - fileHeader - size; room > 0 {
			n = min(n, room/int64(entry))
		}
		if int64(len(after)) < n*int64(entry) {
			return nil, fmt.Errorf("%w: it ends inside the palette", ErrTruncated)
		}
		for i := range f.palette {
			f.palette[i][3] = 255
			if int64(i) < n {
				b := after[i*entry:]
				f.palette[i] = [4]byte{b[2], b[1], b[0], 255}
			}
		}
		after = after[n*int64(entry):]
	}
	if offset == 0 { // some writers leave it out
		offset = int64(len(data) - len(after))
	}
	if offset < fileHeader+size {
		return nil, fmt.Errorf("%w: the pixels lie inside the header", ErrCorrupt)
	}
	if offset >= int64(len(data)) {
		return nil, fmt.Errorf("%w: no pixel data", ErrTruncated)
	}
	f.pixels = data[offset:]
	return f, nil
}

// line returns the pixels of the row that the file has at index i.
func (f *File) line(m *image.RGBA, i int) []byte {
	if !f.topDown {
		i = f.Height - 1 - i
	}
	return m.Pix[i*m.Stride : i*m.Stride+f.Width*4]
}

// Decode returns the pixels. Alpha counts only where the header has a mask for
// it and some pixel is not fully transparent: many programs write zeros there.
func (f *File) Decode() (*image.RGBA, error) {
	compressed := f.compression == runLength4 || f.compression == runLength8
	stride := (int64(f.Width)*int64(f.depth) + 31) / 32 * 4
	last := (int64(f.Width)*int64(f.depth) + 7) / 8
	if need := stride*int64(f.Height-1) + last; !compressed && int64(len(f.pixels)) < need {
		return nil, fmt.Errorf("%w: %d of %d bytes of pixels are there", ErrTruncated, len(f.pixels), need)
	}
	m := image.NewRGBA(image.Rect(0, 0, f.Width, f.Height))
	if compressed {
		return m, f.expand(m)
	}
	convert := f.indexed
	switch {
	case f.depth == 24:
		convert = fromBGR
	case f.depth > 8:
		convert = f.masked()
	}
	for y := range f.Height {
		convert(f.line(m, y), f.pixels[int64(y)*stride:][:last])
	}
	if f.masks[3] != 0 {
		flatten(m)
	}
	return m, nil
}

func (f *File) indexed(dst, src []byte) {
	perByte, mask := 8/f.depth, byte(1<<f.depth-1)
	for i := 0; i*4 < len(dst); i++ {
		shift := 8 - f.depth - i%perByte*f.depth
		*(*[4]byte)(dst[i*4:]) = f.palette[src[i/perByte]>>shift&mask]
	}
}

func fromBGR(dst, src []byte) {
	for len(dst) >= 4 && len(src) >= 3 {
		dst[0], dst[1], dst[2], dst[3] = src[2], src[1], src[0], 255
		dst, src = dst[4:], src[3:]
	}
}

// masked returns the conversion of 16- and 32-bit pixels by masks. Fields of
// fewer than eight bits are scaled to the whole range, of longer ones the
// upper eight bits are kept.
func (f *File) masked() func(dst, src []byte) {
	type field struct {
		mask  uint32
		shift int
		top   uint32
	}
	var of [4]field
	for i, mask := range f.masks {
		n := field{mask: mask, shift: bits.TrailingZeros32(mask)}
		if mask != 0 {
			if width := bits.Len32(mask >> n.shift); width > 8 {
				n.shift += width - 8
			}
			n.top = mask >> n.shift
		}
		of[i] = n
	}
	step := f.depth / 8
	return func(dst, src []byte) {
		for len(dst) >= 4 && len(src) >= step {
			v := uint32(src[0]) | uint32(src[1])<<8
			if step == 4 {
				v |= uint32(src[2])<<16 | uint32(src[3])<<24
			}
			dst[3] = 255
			for i, n := range of {
				if n.top != 0 {
					dst[i] = byte(v & n.mask >> n.shift * 255 / n.top)
				}
			}
			dst, src = dst[4:], src[step:]
		}
	}
}

// flatten composites m, which is not premultiplied, onto white in place.
func flatten(m *image.RGBA) {
	seen := false
	for i := 3; i < len(m.Pix) && !seen; i += 4 {
		seen = m.Pix[i] != 0
	}
	for p := m.Pix; len(p) >= 4; p = p[4:] {
		if a := p[3]; seen && a != 255 {
			p[0], p[1], p[2] = pngio.OverWhite(p[0], a), pngio.OverWhite(p[1], a), pngio.OverWhite(p[2], a)
		}
		p[3] = 255
	}
}

// expand undoes the run lengths. Pixels that the data leaves out have the
// first colour.
func (f *File) expand(m *image.RGBA) error {
	for p := m.Pix; len(p) >= 4; p = p[4:] {
		*(*[4]byte)(p) = f.palette[0]
	}
	src := f.pixels
	take := func(n int) []byte {
		if len(src) < n {
			return nil
		}
		b := src[:n]
		src = src[n:]
		return b
	}
	x, y := 0, 0
	put := func(index byte) {
		if x < f.Width && y < f.Height {
			*(*[4]byte)(f.line(m, y)[x*4:]) = f.palette[index]
		}
		x++
	}
	nibble := func(b []byte, i int) byte {
		return b[i/2] >> (4 - i%2*4) & 15
	}
	for {
		op := take(2)
		if op == nil {
			return fmt.Errorf("%w: the end mark is missing", ErrTruncated)
		}
		n := int(op[0])
		switch {
		case n > 0 && f.depth == 8:
			for range n {
				put(op[1])
			}
		case n > 0:
			for i := range n {
				put(nibble(op[1:], i%2))
			}
		case op[1] == 0: // end of line
			x, y = 0, y+1
		case op[1] == 1: // end of picture
			return nil
		case op[1] == 2: // skip
			d := take(2)
			if d == nil {
				return fmt.Errorf("%w: it ends inside the pixels", ErrTruncated)
			}
			x, y = x+int(d[0]), y+int(d[1])
		default: // pixels as they are, padded to two bytes
			n, size := int(op[1]), int(op[1])
			if f.depth == 4 {
				size = (n + 1) / 2
			}
			b := take(size + size%2)
			if b == nil {
				return fmt.Errorf("%w: it ends inside the pixels", ErrTruncated)
			}
			for i := range n {
				if f.depth == 8 {
					put(b[i])
				} else {
					put(nibble(b, i))
				}
			}
		}
	}
}
